package volume

import (
	"context"
	"slices"

	"berth/api/volumes"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/structs"
)

var volumeWhyCommand = command.Command{
	Name:     "why",
	Args:     "<volume>",
	Synopsis: "Show why a volume, or a use of it, waits",
	Help: `
Shows the mounts of the volume that are ill, its differences from the storage,
and the chain of reasons: calls
of the plugin, its instances, claims in the queue and attachments. A line
with an arrow is the next thing to do.`,
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
	why, _, err := volumes.Why(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	// The rest of the answer does not depend on the nodes.
	lines, err := alloc.PrintVolumeHealth(ctx, c.API, id, nil)
	if err != nil {
		warn(c, []string{"the state of its mounts is not known: " + err.Error()})
	}
	var ill []*structs.Reason
	for _, line := range slices.Concat(lines, driftReasons(differencesOf(ctx, c, id))) {
		ill = append(ill, &structs.Reason{Text: line})
	}
	why.Reasons = slices.Concat(ill, why.Reasons)
	why.Text = structs.WhyText(ill) + why.Text

	return c.Show(why, func() error {
		c.Printf("%s", why.Text)
		return nil
	})
}
