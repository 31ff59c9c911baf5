// Command berth-convert makes files for berth of a cluster of the dialect, and of compose files. It is a
// program of its own, so that the agent does not carry its libraries.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"berth/cli/command"
	"berth/structs"
)

// root is the command line of the program.
var root = command.Command{
	Name:     "berth-convert",
	Synopsis: "Make files for berth of a cluster of the dialect, and of compose files",
	Sub:      commands,
}

// manualPage is a command for the release alone.
var manualPage = command.Command{
	Name:     "manual",
	Synopsis: "Print the manual page",
	Hidden:   true,
	Local:    true,
	Run: func(_ context.Context, c *command.Call) error {
		date, err := command.ManualDate(os.Getenv("SOURCE_DATE_EPOCH"))
		if err != nil {
			return structs.Invalidf("%w", err)
		}
		var p command.ManualPage
		p.Program(root, date)
		_, err = p.WriteTo(c.Out)
		return err
	},
}

// program returns the command line with what users do not see.
func program() *command.Command {
	all := root
	all.Sub = append(slices.Clone(root.Sub), manualPage)
	return &all
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := program().Main(ctx, os.Args[1:], command.Stdio{
		In:  os.Stdin,
		Out: os.Stdout,
		Err: os.Stderr,
	})
	stop()
	os.Exit(code)
}
