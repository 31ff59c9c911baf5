package cli

import (
	"context"

	"berth/cli/command"
	"berth/internal/version"
)

// programVersion is the answer of version.
type programVersion struct {
	Version  string
	Revision string `json:",omitempty"`
}

// showVersion calls no agent, so it shows the version of this program alone.
func showVersion(_ context.Context, c *command.Call) error {
	v := programVersion{
		Version:  version.Version,
		Revision: version.Revision(),
	}

	return c.Show(v, func() error {
		c.Printf("berth %s\n", v.Version)
		if v.Revision != "" {
			c.Printf("Revision %s\n", v.Revision)
		}
		return nil
	})
}
