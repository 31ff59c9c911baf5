// Command berth-convert makes files for berth of a cluster of the dialect, and of compose files. It is a
// program of its own, so that the agent does not carry its libraries.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"berth/cli/command"
)

// root is the command line of the program.
var root = command.Command{
	Name:     "berth-convert",
	Synopsis: "Make files for berth of a cluster of the dialect, and of compose files.",
	Sub:      commands,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := root.Main(ctx, os.Args[1:], command.Stdio{
		In:  os.Stdin,
		Out: os.Stdout,
		Err: os.Stderr,
	})
	stop()
	os.Exit(code)
}
