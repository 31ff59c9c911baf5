package cli

import (
	"context"

	"berth/internal/version"
)

// systemCommands are the verbs of berth system.
var systemCommands = []Command{
	{
		Name:     "gc",
		Synopsis: "Delete rows that are past their retention",
		Acts:     true,
		Run: func(ctx context.Context, c *Call) error {
			if err := c.API.SystemGC(ctx); err != nil {
				return err
			}
			return c.report(changed{}, "Collected")
		},
		Examples: "berth system gc",
	},
}

func showVersion(_ context.Context, c *Call) error {
	c.Printf("berth %s\n", version.Version)
	if r := version.Revision(); r != "" {
		c.Printf("Revision %s\n", r)
	}
	return nil
}
