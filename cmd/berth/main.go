// Command berth is the whole of berth in one binary: the agent (server, node, HTTP API), the command line
// that calls an agent, the bundled CSI drivers, and the supervisor of each task.
package main

import (
	"context"
	"os"
	"syscall"
	_ "time/tzdata" // the schedules of periodic jobs have the same time zones on every server

	"berth/agent"
	"berth/agent/commands"
	"berth/cli"
	"berth/cli/access"
	"berth/cli/command"
	"berth/client/csi/helper"
	"berth/client/drivers/docker/follow"
	"berth/client/drivers/executor"
	"berth/client/guard/watch"
	"berth/client/hooks/artifact/download"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		// The supervisor comes before all other code, so that the parent of a task stays small.
		os.Exit(executor.Main(os.Args[2:],
			executor.Other{Arg: download.Arg, Main: download.Main},
			executor.Other{Arg: follow.Arg, Main: follow.Main},
			executor.Other{Arg: helper.CutArg, Main: helper.Cut},
			executor.Other{Arg: helper.ProbeArg, Main: helper.Probe},
			executor.Other{Arg: helper.StatfsArg, Main: helper.Statfs},
			executor.Other{Arg: helper.FitrimArg, Main: helper.Fitrim},
			executor.Other{Arg: watch.Arg, Main: watch.Main},
			executor.Other{Arg: access.GuardArg, Main: access.GuardMain}))
	}
	ctx, stop := agent.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	std := command.Stdio{
		In:  os.Stdin,
		Out: os.Stdout,
		Err: os.Stderr,
	}
	code := cli.Run(ctx, os.Args[1:], std, commands.All()...)
	stop()
	os.Exit(code)
}
