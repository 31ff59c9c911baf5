package operator

import (
	"context"
	"errors"
	"io"

	"berth/api/operator"
	"berth/cli/command"
	"berth/structs"
)

const monitorHelp = `
Shows the lines of the log of an agent as they are written, until the command
is interrupted. The level is that of this command alone: the log of the agent
keeps its own. An agent names the number of the lines that a slow reader has
missed.

The agent is the one at -address, or that of a node or a server.

"monitor export" shows the log file of the agent in place of new lines, after
the older files that were renamed. The agent needs log_file in its
configuration.`

// MonitorCommand is berth monitor.
var MonitorCommand = command.Command{
	Name:     "monitor",
	Args:     "[export]",
	Group:    command.GroupSelf,
	Synopsis: "Follow the log of an agent, or show its log file",
	Help:     monitorHelp,
	Flags: append([]command.Flag{
		{
			Name:    "log-level",
			Kind:    command.String,
			Value:   "level",
			Default: "info",
			Usage:   "Lines of this level and above: trace, debug, info, warn or error",
		},
		{Name: "json", Usage: "One JSON object a line"},
		{
			Name:    "logs-since",
			Kind:    command.Duration,
			Value:   "duration",
			Default: "72h",
			Usage:   "With export: the files that have changed within this time",
		},
		{Name: "on-disk", Usage: "With export: the log file; this is the only one there is"},
	}, targetFlags...),
	Run: runMonitor,
	Examples: "berth monitor\n" +
		"berth monitor -log-level debug -node-id 4f1c0a77\n" +
		"berth monitor export -server-id leader",
}

// targetFlags name the agent that a command looks into.
var targetFlags = []command.Flag{
	{Name: "node-id", Kind: command.String, Value: "node", Usage: "The agent of a node, by its ID or name"},
	{
		Name:  "server-id",
		Kind:  command.String,
		Value: "server",
		Usage: "The agent of a server, by its name or ID, or \"leader\"",
	},
}

// monitorTarget returns the agent that the options name.
func monitorTarget(ctx context.Context, c *command.Call) (t operator.Target, err error) {
	t.ServerID = c.String("server-id")
	node := c.String("node-id")
	switch {
	case node != "" && t.ServerID != "":
		return t, command.BadUsage("-node-id and -server-id exclude each other")
	case node != "":
		t.NodeID, err = c.Resolve(ctx, "node", node)
	}
	return t, err
}

func runMonitor(ctx context.Context, c *command.Call) error {
	export := c.Arg(0) != ""
	if export && c.Arg(0) != "export" {
		return command.BadUsage("there is no %q; expected no argument, or export", c.Arg(0))
	}
	if !export && (c.Given("logs-since") || c.Bool("on-disk")) {
		return command.BadUsage("-logs-since and -on-disk are for \"monitor export\"")
	}
	if export && (c.Given("log-level") || c.Bool("json")) {
		return command.BadUsage("-log-level and -json are not for \"monitor export\": the file is as it is")
	}

	target, err := monitorTarget(ctx, c)
	if err != nil {
		return err
	}
	var lines io.ReadCloser
	if export {
		lines, err = operator.Export(ctx, c.API, target, c.Duration("logs-since"))
	} else {
		lines, err = operator.Monitor(ctx, c.API, target, operator.MonitorOptions{
			Level: c.String("log-level"),
			JSON:  c.Bool("json"),
		})
	}
	if err != nil {
		return err
	}
	defer command.CloseRead(lines)

	_, err = io.Copy(command.Printable{To: c.Out}, lines)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return nil // the user has ended it
	case err != nil:
		return structs.Unavailablef("the log broke off: %w", err)
	case !export:
		return structs.Unavailablef("the agent has ended the log")
	}
	return nil
}
