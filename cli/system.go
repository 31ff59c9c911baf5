package cli

import "context"

// systemCommands are the verbs of berth system.
var systemCommands = []Command{
	{
		Name:     "gc",
		Synopsis: "Delete rows that are past their retention",
		Acts:     true,
		Run: func(ctx context.Context, c *Call) error {
			err := newWatch(c).await(ctx, "the servers, which delete the rows", seeServers, func() error {
				return c.API.SystemGC(ctx)
			})
			if err != nil {
				return err
			}
			return c.report(changed{}, "Collected")
		},
		Examples: "berth system gc",
	},
}
