package cli

import "context"

// systemCommands are the verbs of berth system.
var systemCommands = []Command{
	{
		Name:     "gc",
		Synopsis: "Delete rows that are past their retention",
		Acts:     true,
		Run: func(ctx context.Context, c *Call) error {
			err := New(c).Await(ctx, "the servers, which delete the rows", SeeServers, func() error {
				return c.API.SystemGC(ctx)
			})
			if err != nil {
				return err
			}
			return c.Report(Changed{}, "Collected")
		},
		Examples: "berth system gc",
	},
}
