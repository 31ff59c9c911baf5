package cli

import (
	"slices"

	"berth/cli/access"
	"berth/cli/alloc"
	"berth/cli/certificate"
	"berth/cli/command"
	"berth/cli/job"
	"berth/cli/node"
	"berth/cli/operator"
	"berth/cli/setup"
	"berth/cli/volume"
)

const synopsis = "A clustered control plane for CSI storage and the jobs that use it"

// Tree returns the commands that call an agent together with the commands of other packages.
func Tree(extra ...command.Command) []command.Command {
	return withShortForms(mergeCommands(tree, extra))
}

// tree lists the nouns in the order of help, group by group. The verbs of a noun are in its package.
var tree = []command.Command{
	{
		Name:     "job",
		Group:    command.GroupWork,
		Synopsis: "Run, watch and stop jobs",
		Sub:      slices.Concat(job.Commands, job.ActionCommands),
	},
	{
		Name:     "alloc",
		Group:    command.GroupWork,
		Synopsis: "Show, follow and stop allocations",
		Sub:      alloc.Commands,
	},
	{
		Name:     "eval",
		Group:    command.GroupWork,
		Synopsis: "Show evaluations",
		Sub:      alloc.EvalCommands,
	},
	{
		Name:     "deployment",
		Group:    command.GroupWork,
		Synopsis: "Show, promote and stop deployments of jobs",
		Sub:      job.DeploymentCommands,
	},
	{
		Name:     "scaling",
		Group:    command.GroupWork,
		Synopsis: "Show the scaling policies of jobs",
		Sub:      job.ScalingCommands,
	},
	{
		Name:     "service",
		Group:    command.GroupWork,
		Synopsis: "Show the services that allocations offer",
		Sub:      alloc.ServiceCommands,
	},
	{
		Name:     "var",
		Group:    command.GroupWork,
		Synopsis: "Write, show and lock variables, whose values are encrypted",
		Sub:      access.VariableCommands,
	},
	statusCommand,
	{
		Name:     "volume",
		Group:    command.GroupStorage,
		Synopsis: "Create, show and delete volumes",
		Sub:      volume.Commands,
	},
	{
		Name:     "plugin",
		Group:    command.GroupStorage,
		Synopsis: "Show CSI plugins",
		Sub:      volume.PluginCommands,
	},
	{
		Name:     "node",
		Group:    command.GroupCluster,
		Synopsis: "Show nodes and control placements on them",
		Sub:      node.Commands,
	},
	operator.EventCommand,
	{
		Name:     "namespace",
		Group:    command.GroupCluster,
		Synopsis: "Create, show and delete namespaces",
		Sub:      operator.NamespaceCommands,
	},
	{
		Name:     "quota",
		Group:    command.GroupCluster,
		Synopsis: "Bound what namespaces may have, and show their use",
		Sub:      access.QuotaCommands,
	},
	{
		Name:     "acl",
		Group:    command.GroupCluster,
		Synopsis: "Control who may do what: policies, roles, tokens and logins",
		Sub:      access.ACLCommands,
	},
	access.LoginCommand,
	{
		Name:     "admission",
		Group:    command.GroupCluster,
		Synopsis: "Control which jobs and volumes the servers take: rules in CEL",
		Sub:      access.AdmissionCommands,
	},
	{
		Name:     "server",
		Group:    command.GroupCluster,
		Synopsis: "Show and remove servers",
		Sub:      operator.ServerCommands,
	},
	{
		Name:     "operator",
		Group:    command.GroupCluster,
		Synopsis: "Operate the cluster",
		Sub:      operator.Commands,
	},
	{
		Name:     "tls",
		Group:    command.GroupCluster,
		Synopsis: "Create and show the certificates of a cluster",
		Sub:      certificate.Commands,
	},
	{
		Name:     "setup",
		Group:    command.GroupCluster,
		Synopsis: "Prepare Consul and Vault for the logins of services and tasks",
		Sub:      setup.Commands,
	},
	{
		Name:     "system",
		Group:    command.GroupCluster,
		Synopsis: "Clean up",
		Sub:      operator.SystemCommands,
	},
	operator.AgentInfoCommand,
	operator.MonitorCommand,
	job.FormatCommand,
	operator.PageCommand,
	{
		Name:     "completion",
		Args:     "<shell>",
		Group:    command.GroupSelf,
		Synopsis: "Print the completion script for bash, zsh or fish",
		Help:     command.HelpCompletion,
		Local:    true,
		Run:      command.PrintCompletion("berth"),
		Examples: "source <(berth completion bash)\n" +
			"berth completion fish > ~/.config/fish/completions/berth.fish",
	},
	{
		Name:     "version",
		Group:    command.GroupSelf,
		Synopsis: "Show the version",
		Local:    true,
		Renders:  true,
		Run:      showVersion,
		Examples: "berth version\n" +
			"berth version -json",
	},
}
