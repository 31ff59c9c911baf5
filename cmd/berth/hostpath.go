package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/go-hclog"

	"berth/internal/version"
	"berth/plugins/hostpath"
	"berth/structs"
)

const hostpathUsage = `Usage: berth plugin hostpath -node-id ID [flags]

  Runs the CSI driver (controller and node halves) for storage on this node:
  directories, and images of ext4 or xfs on loop devices. As the task of a job
  with a csi_plugin block it needs no flag but -node-id.

Flags:
`

// runHostpath runs the driver until a signal ends it.
func runHostpath(ctx context.Context, args []string, stderr io.Writer) error {
	cfg := hostpath.Config{Version: version.Version}
	set := flag.NewFlagSet("hostpath", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() { fmt.Fprint(stderr, hostpathUsage); set.PrintDefaults() }
	set.StringVar(&cfg.Endpoint, "endpoint", os.Getenv("CSI_ENDPOINT"), "unix `socket` to serve on; default $CSI_ENDPOINT")
	set.StringVar(&cfg.NodeID, "node-id", "", "this node's `name`, unique among the nodes")
	set.StringVar(&cfg.DataDir, "data-dir", os.Getenv("BERTH_PLUGIN_DATA"), "`directory` in which volumes live; default $BERTH_PLUGIN_DATA")
	set.StringVar(&cfg.TopologyKey, "topology-key", hostpath.DefaultTopologyKey, "topology `key` that carries the node's name")
	set.StringVar(&cfg.Name, "name", hostpath.DefaultName, "the driver's `name`")
	set.Int64Var(&cfg.MaxVolumes, "max-volumes", 0, "most volumes in use on this node; 0: no limit")
	capacity := set.String("capacity", "0", "`size` of all volumes together, such as 10GiB; 0: what the file system has")
	level := set.String("log-level", "info", "trace, debug, info, warn or error")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return structs.Errorf(structs.KindInvalid, "%w", err)
	}
	size, err := humanize.ParseBytes(*capacity)
	if err != nil {
		return structs.Errorf(structs.KindInvalid, "-capacity: %w", err)
	}
	cfg.Capacity = int64(size)
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "hostpath", Level: hclog.LevelFromString(*level), Output: stderr})
	return hostpath.Run(ctx, cfg)
}
