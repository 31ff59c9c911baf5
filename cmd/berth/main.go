// Command berth is the whole of berth in one binary: the agent (server, node, HTTP API), the command line
// that talks to one, the CSI drivers that come with it, and the supervisor that each task runs under.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"berth/agent"
	"berth/cli"
	"berth/client/drivers/executor"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:])) // before anything else: it is a task's parent and stays small
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, commands()...)
	stop()
	os.Exit(code)
}

// commands are those that run a process of berth itself.
func commands() []cli.Command {
	return []cli.Command{
		{
			Name: "agent", Group: cli.GroupSelf, Synopsis: "Run a server, a node, or both", Local: true, Raw: true,
			Run: func(ctx context.Context, c *cli.Call) error { return agent.Command(ctx, c.Args, c.Out, c.Err) },
		},
		{
			Name: "plugin", Sub: []cli.Command{{
				Name: "hostpath", Synopsis: "Run the CSI driver for storage on this node", Local: true, Raw: true,
				Run: func(ctx context.Context, c *cli.Call) error { return runHostpath(ctx, c.Args, c.Err) },
			}},
		},
	}
}
