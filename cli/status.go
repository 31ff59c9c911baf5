package cli

import (
	"context"
	"slices"
	"strings"

	operatorapi "berth/api/operator"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/job"
	"berth/cli/node"
	"berth/cli/operator"
	"berth/cli/volume"
	"berth/structs"
)

const statusHelp = `
Finds out what the ID names: a job, an allocation, an evaluation, a
deployment, a volume, a plugin, a node, a node pool or a namespace. Then it
shows it as the command of that kind does, such as "berth alloc status". An
ID may be shortened if it then names one thing alone. If things of several
kinds have the ID, the command names the commands that show them.`

// statusCommand shows a thing of any kind.
var statusCommand = command.Command{
	Name:     "status",
	Args:     "[id]",
	Group:    command.GroupWork,
	Synopsis: "List jobs, or show a thing of any kind by its ID",
	Help:     statusHelp,
	Renders:  true,
	Run:      showStatus,
	Examples: "berth status\n" +
		"berth status web\n" +
		"berth status 53b92b20",
}

// objectKind is a kind of things.
type objectKind struct {
	context string // of a search
	path    string
	command *command.Command // shows one
}

var objectKinds = []objectKind{
	{structs.SearchJobs, "job status", command.Find(job.Commands, "status")},
	{structs.SearchAllocs, "alloc status", command.Find(alloc.Commands, "status")},
	{structs.SearchEvals, "eval status", command.Find(alloc.EvalCommands, "status")},
	{structs.SearchDeployments, "deployment status", command.Find(job.DeploymentCommands, "status")},
	{structs.SearchVolumes, "volume status", command.Find(volume.Commands, "status")},
	{structs.SearchPlugins, "plugin status", command.Find(volume.PluginCommands, "status")},
	{structs.SearchNodes, "node status", command.Find(node.Commands, "status")},
	{structs.SearchNodePools, "node pool info", command.Find(node.Commands, "pool info")},
	{structs.SearchNamespaces, "namespace status", command.Find(operator.NamespaceCommands, "status")},
}

func showStatus(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	if id == "" {
		return command.Delegate(ctx, c, objectKinds[0].command)
	}

	found, err := operatorapi.SearchPrefix(ctx, c.API, id, "", nil)
	if err != nil {
		return err
	}
	named := kindsOf(found.Matches, func(match string) bool { return match == id })
	if len(named) == 0 {
		named = kindsOf(found.Matches, func(string) bool { return true })
	}

	switch len(named) {
	case 0:
		return structs.NotFoundf("no ID begins with %q; expected that of a job, an allocation, an evaluation, a "+
			"deployment, a volume, a plugin, a node, a node pool or a namespace", structs.Cut(id, structs.MaxQuoted))
	case 1:
		return command.Delegate(ctx, c, named[0].command)
	}
	var lines []string
	for _, k := range named {
		lines = append(lines, structs.CommandLine(c.Namespace(), k.path, id))
	}
	return structs.Conflictf("things of %d kinds have the ID %q; to show one of them:\n  %s", len(named),
		structs.Cut(id, structs.MaxQuoted), strings.Join(lines, "\n  "))
}

// kindsOf returns the kinds of which a match is wanted.
func kindsOf(matches map[string][]string, wanted func(match string) bool) (all []objectKind) {
	for _, k := range objectKinds {
		if slices.ContainsFunc(matches[k.context], wanted) {
			all = append(all, k)
		}
	}
	return all
}
