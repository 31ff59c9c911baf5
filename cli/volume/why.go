package volume

import (
	"context"

	"berth/api"
	"berth/cli/command"
)

var volumeWhyCommand = command.Command{
	Name:     "why",
	Args:     "<volume>",
	Synopsis: "Show why a volume, or a use of it, waits",
	Help: `
Shows the chain of reasons: calls of the plugin, its instances, claims in
the queue and attachments. A line with an arrow is the next thing to do.`,
	Renders:  true,
	Run:      volumeWhy,
	Examples: "berth volume why data",
}

// volumeWhy shows what a volume waits for, and the remedies.
func volumeWhy(ctx context.Context, c *command.Call) error {
	id, err := c.Resolve(ctx, "volume", c.Arg(0))
	if err != nil {
		return err
	}
	return command.ShowWhy(ctx, c, id, (*api.Client).VolumeWhy)
}
