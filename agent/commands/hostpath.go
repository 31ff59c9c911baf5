package commands

import (
	"cmp"
	"context"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/go-hclog"

	"berth/cli/command"
	"berth/internal/agentlog"
	"berth/internal/version"
	"berth/plugins/hostpath"
	"berth/structs"
)

const helpHostpath = `
The driver (its controller and node halves) is for storage on this node:
directories, and images of ext4 or xfs on loop devices. As the task of a job
with a csi_plugin block it needs no option but -node-id.`

// hostpathCommand returns the command that is the task of the driver's job.
func hostpathCommand() command.Command {
	return command.Command{
		Name:     "hostpath",
		Synopsis: "Run the CSI driver for storage on this node",
		Help:     helpHostpath,
		Examples: "berth plugin hostpath -node-id n1 -data-dir /var/lib/hostpath",
		Local:    true,
		Run:      runHostpath,
		Flags:    hostpathFlags,
	}
}

// hostpathFlags are the settings of hostpath.Config. A job sets few of them: the agent gives the others by
// the environment.
var hostpathFlags = []command.Flag{
	{
		Name:  "node-id",
		Kind:  command.String,
		Value: "name",
		Usage: "This node's name, unique among the nodes",
	},
	{
		Name:  "endpoint",
		Kind:  command.String,
		Value: "socket",
		Usage: "The unix socket to serve on. Default: CSI_ENDPOINT",
	},
	{
		Name:  "data-dir",
		Kind:  command.String,
		Value: "path",
		Usage: "The directory of the volumes. Default: BERTH_PLUGIN_DATA",
	},
	{
		Name:    "capacity",
		Kind:    command.String,
		Value:   "size",
		Default: "0",
		Usage:   "The size of all volumes together, such as 10GiB; 0: the file system's",
	},
	{
		Name:    "max-volumes",
		Kind:    command.Number,
		Value:   "number",
		Default: "0",
		Usage:   "How many volumes may be in use on this node; 0: any number",
	},
	{
		Name:    "name",
		Kind:    command.String,
		Value:   "name",
		Default: hostpath.DefaultName,
		Usage:   "The driver's name",
	},
	{
		Name:    "topology-key",
		Kind:    command.String,
		Value:   "key",
		Default: hostpath.DefaultTopologyKey,
		Usage:   "The topology key whose value is the node's name",
	},
	{
		Name:    "log-level",
		Kind:    command.String,
		Value:   "level",
		Default: "info",
		Usage:   "trace, debug, info, warn or error",
	},
}

// runHostpath runs the driver. Faults of the other options are found by hostpath.Run.
func runHostpath(ctx context.Context, c *command.Call) error {
	agentlog.OutliveReaders()
	size := c.String("capacity")
	capacity, err := humanize.ParseBytes(size)
	if err != nil {
		return structs.Invalidf("the option -capacity is %q, expected a size such as 10GiB", size)
	}

	logLevel := c.String("log-level")
	level := hclog.LevelFromString(logLevel)
	if level == hclog.NoLevel {
		return structs.Invalidf(
			"the option -log-level is %q, expected trace, debug, info, warn or error", logLevel)
	}

	return hostpath.Run(ctx, hostpath.Config{
		// The agent sets these variables for a task with a csi_plugin block.
		Endpoint:    cmp.Or(c.String("endpoint"), os.Getenv("CSI_ENDPOINT")),
		NodeID:      c.String("node-id"),
		DataDir:     cmp.Or(c.String("data-dir"), os.Getenv("BERTH_PLUGIN_DATA")),
		Capacity:    int64(capacity),
		MaxVolumes:  c.Number("max-volumes"),
		TopologyKey: c.String("topology-key"),
		Name:        c.String("name"),
		Version:     version.Version,
		Logger: hclog.New(&hclog.LoggerOptions{
			Name:   "hostpath",
			Level:  level,
			Output: agentlog.NewStream(c.Err),
		}),
	})
}
