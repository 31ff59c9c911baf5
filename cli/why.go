package cli

import (
	"context"

	"berth/api"
	"berth/structs"
)

var jobWhyCommand = Command{
	Name:     "why",
	Args:     "<job>",
	Synopsis: "Show why a job does not run as its file demands",
	Help: `
Shows the chain of reasons: evaluations, the filters that reject nodes,
claims, plugins and nodes. A line with an arrow is the next thing to do. Of a
purged job it shows the allocations that have not ended.`,
	Renders:  true,
	Run:      jobWhy,
	Examples: "berth job why web",
}

var volumeWhyCommand = Command{
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

// jobWhy takes the argument for a complete ID first, because no list has a purged job.
func jobWhy(ctx context.Context, c *Call) error {
	err := showWhy(ctx, c, c.Arg(0), (*api.Client).JobWhy)
	if !structs.IsKind(err, structs.KindNotFound) {
		return err
	}
	id, err := c.resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return err
	}
	return showWhy(ctx, c, id, (*api.Client).JobWhy)
}

func volumeWhy(ctx context.Context, c *Call) error {
	id, err := c.resolve(ctx, "volume", c.Arg(0))
	if err != nil {
		return err
	}
	return showWhy(ctx, c, id, (*api.Client).VolumeWhy)
}

func showWhy(
	ctx context.Context, c *Call, id string,
	read func(*api.Client, context.Context, string, *api.Query) (*structs.WhyResponse, *api.Meta, error),
) error {
	why, _, err := read(c.API, ctx, id, nil)
	if err != nil {
		return err
	}
	return c.show(why, func() error {
		c.Printf("%s", why.Text)
		return nil
	})
}
