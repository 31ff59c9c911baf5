package operator

import (
	"context"

	"berth/cli/command"
	"berth/cli/watch"
)

// SystemCommands are the verbs of berth system.
var SystemCommands = []command.Command{
	{
		Name:     "gc",
		Synopsis: "Delete rows that are past their retention",
		Acts:     true,
		Run: func(ctx context.Context, c *command.Call) error {
			const servers = "the servers, which delete the rows"
			err := watch.New(c).Await(ctx, servers, watch.SeeServers, func() error {
				return c.API.SystemGC(ctx)
			})
			if err != nil {
				return err
			}
			return c.Report(command.Changed{}, "Collected")
		},
		Examples: "berth system gc",
	},
}
