// Command berth is the whole of berth in one binary: the agent (server, node, HTTP API), the command line
// that talks to one, the CSI drivers that come with it, and the supervisor that each task runs under.
package main

import (
	"context"
	"os"
	"syscall"

	"berth/agent"
	"berth/agent/commands"
	"berth/cli"
	"berth/client/drivers/executor"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:])) // before anything else: it is a task's parent and stays small
	}
	ctx, stop := agent.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, commands.All()...)
	stop()
	os.Exit(code)
}
