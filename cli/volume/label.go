package volume

import (
	"context"

	"berth/api/volumes"
	"berth/cli/command"
	"berth/cli/watch"
)

// labelCommand is berth volume label.
var labelCommand = command.Command{
	Name:     "label",
	Args:     "<volume> [key=value]...",
	Synopsis: "Set or remove labels of a volume",
	Help: `
Labels are for people and for filters of lists: neither plugins nor the
scheduler read them. Labels that the command does not name stay. A volume file
with labels replaces all of them, and one without labels keeps them. With them
volume status -filter 'Labels.tier == "gold"' lists some volumes.`,
	Acts:  true,
	Flags: []command.Flag{command.UnsetFlag},
	Run:   volumeLabel,
	Examples: "berth volume label data tier=gold owner=billing\n" +
		"berth volume label -unset owner data",
}

func volumeLabel(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	set, unset, err := c.KeyChanges(c.Args[1:])
	if err != nil {
		return err
	}
	changed, err := volumes.Label(ctx, c.API, id, set, unset)
	if err != nil {
		return watch.VolumeFault(ctx, c, id, err)
	}
	if changed.Warnings != "" {
		warn(c, []string{changed.Warnings})
	}
	return c.Report(command.Changed{"VolumeID": id}, "The labels of volume %q are changed", id)
}
