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
		Group:    GroupWork,
		Synopsis: "Run, watch and stop jobs",
		Sub:      jobCommands,
	},
	{
		Name:     "alloc",
		Group:    GroupWork,
		Synopsis: "Show, follow and stop allocations",
		Sub:      allocCommands,
	},
	{
		Name:     "eval",
		Group:    GroupWork,
		Synopsis: "Show evaluations",
		Sub:      evalCommands,
	},
	{
		Name:     "deployment",
		Group:    GroupWork,
		Synopsis: "Show, promote and stop deployments of jobs",
		Sub:      deploymentCommands,
	},
	{
		Name:     "scaling",
		Group:    GroupWork,
		Synopsis: "Show the scaling policies of jobs",
		Sub:      scalingCommands,
	},
	{
		Name:     "service",
		Group:    GroupWork,
		Synopsis: "Show the services that allocations offer",
		Sub:      serviceCommands,
	},
	{
		Name:     "volume",
		Group:    GroupStorage,
		Synopsis: "Create, show and delete volumes",
		Sub:      volumeCommands,
	},
	{
		Name:     "plugin",
		Group:    GroupStorage,
		Synopsis: "Show CSI plugins",
		Sub:      pluginCommands,
	},
	{
		Name:     "node",
		Group:    GroupCluster,
		Synopsis: "Show nodes and control placements on them",
		Sub:      nodeCommands,
	},
	{
		Name:     "namespace",
		Group:    GroupCluster,
		Synopsis: "Create, show and delete namespaces",
		Sub:      namespaceCommands,
	},
	{
		Name:     "server",
		Group:    GroupCluster,
		Synopsis: "Show and remove servers",
		Sub:      serverCommands,
	},
	{
		Name:     "operator",
		Group:    GroupCluster,
		Synopsis: "Operate the cluster",
		Sub:      operatorCommands,
	},
	{
		Name:     "system",
		Group:    GroupCluster,
		Synopsis: "Clean up",
		Sub:      systemCommands,
	},
	{
		Name:     "completion",
		Args:     "<shell>",
		Group:    GroupSelf,
		Synopsis: "Print the completion script for bash, zsh or fish",
		Help:     HelpCompletion,
		Local:    true,
		Run:      PrintCompletion,
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
