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
			err := c.await(ctx, "the servers, which delete the rows", seeServers, func() error {
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

// programVersion is the answer of version.
type programVersion struct {
	Version  string
	Revision string `json:",omitempty"`
}

func showVersion(_ context.Context, c *Call) error {
	v := programVersion{
		Version:  version.Version,
		Revision: version.Revision(),
	}
	return c.show(v, func() error {
		c.Printf("berth %s\n", v.Version)
		if v.Revision != "" {
			c.Printf("Revision %s\n", v.Revision)
		}
		return nil
	})
}
