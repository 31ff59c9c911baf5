package cli

const synopsis = "A clustered control plane for CSI storage and the jobs that use it"

// Tree returns the commands of this package together with those of other packages.
func Tree(extra ...Command) []Command {
	return mergeCommands(tree, extra)
}

// tree lists the nouns in the order of help, group by group. The verbs of a noun are in its file.
var tree = []Command{
	{
		Name:     "job",
		Group:    groupWork,
		Synopsis: "Run, watch and stop jobs",
		Sub:      jobCommands,
	},
	{
		Name:     "alloc",
		Group:    groupWork,
		Synopsis: "Show, follow and stop allocations",
		Sub:      allocCommands,
	},
	{
		Name:     "eval",
		Group:    groupWork,
		Synopsis: "Show evaluations",
		Sub:      evalCommands,
	},
	{
		Name:     "deployment",
		Group:    groupWork,
		Synopsis: "Show, promote and stop deployments of jobs",
		Sub:      deploymentCommands,
	},
	{
		Name:     "scaling",
		Group:    groupWork,
		Synopsis: "Show the scaling policies of jobs",
		Sub:      scalingCommands,
	},
	{
		Name:     "service",
		Group:    groupWork,
		Synopsis: "Show the services that allocations offer",
		Sub:      serviceCommands,
	},
	{
		Name:     "volume",
		Group:    groupStorage,
		Synopsis: "Create, show and delete volumes",
		Sub:      volumeCommands,
	},
	{
		Name:     "plugin",
		Group:    groupStorage,
		Synopsis: "Show CSI plugins",
		Sub:      pluginCommands,
	},
	{
		Name:     "node",
		Group:    groupCluster,
		Synopsis: "Show nodes and control placements on them",
		Sub:      nodeCommands,
	},
	{
		Name:     "namespace",
		Group:    groupCluster,
		Synopsis: "Create, show and delete namespaces",
		Sub:      namespaceCommands,
	},
	{
		Name:     "server",
		Group:    groupCluster,
		Synopsis: "Show and remove servers",
		Sub:      serverCommands,
	},
	{
		Name:     "operator",
		Group:    groupCluster,
		Synopsis: "Operate the cluster",
		Sub:      operatorCommands,
	},
	{
		Name:     "system",
		Group:    groupCluster,
		Synopsis: "Clean up",
		Sub:      systemCommands,
	},
	{
		Name:     "completion",
		Args:     "<shell>",
		Group:    GroupSelf,
		Synopsis: "Print the completion script for bash, zsh or fish",
		Help:     helpCompletion,
		Local:    true,
		Run:      completion,
		Examples: "source <(berth completion bash)\n" +
			"berth completion fish > ~/.config/fish/completions/berth.fish",
	},
	{
		Name:     "version",
		Group:    GroupSelf,
		Synopsis: "Show the version",
		Local:    true,
		Renders:  true,
		Run:      showVersion,
		Examples: "berth version\n" +
			"berth version -json",
	},
}
