package command

import (
	"context"

	"berth/api"
	"berth/structs"
)

// ShowWhy shows the answer of read to why something waits.
func ShowWhy(
	ctx context.Context, c *Call, id string,
	read func(context.Context, *api.Client, string, *api.Query) (*structs.WhyResponse, *api.Meta, error),
) error {
	why, _, err := read(ctx, c.API, id, nil)
	if err != nil {
		return err
	}
	return c.Show(why, func() error {
		c.Printf("%s", why.Text)
		return nil
	})
}
