package watch

import (
	"context"
	"fmt"

	"berth/api"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/structs"
)

// whyCommand returns the command that explains the wait, "" if nothing is known of it.
func (w *Watch) whyCommand() string {
	switch w.Waits.noun {
	case "":
		return ""
	case "node":
		return structs.CommandLine("", "node status", w.Waits.ID)
	}
	return structs.CommandLine(w.Waits.Namespace, w.Waits.noun+" why", w.Waits.ID)
}

// Advice returns the next step of a user whose watch has ended before the wait, or "".
func (w *Watch) Advice() string {
	switch command := w.whyCommand(); {
	case command != "":
		return "; to see what it waits for: " + command
	case w.Waits.Step != "":
		return "; " + w.Waits.Step
	}
	return ""
}

// WithNextStep adds the next step to the fault of a watch or a request. Some faults have one already:
// faults of the command line, of servers that do not answer, and of something that does not exist. A denial
// names the right that is missing.
func (w *Watch) WithNextStep(ctx context.Context, err error) error {
	volume := w.Waits.noun == "volume"
	switch kind := structs.KindOf(err); {
	case kind == structs.KindInvalid, kind == structs.KindNotFound, kind == structs.KindDenied:
		return err
	case kind == structs.KindUnavailable && w.Waits.noun != "" && !volume:
		return err
	case volume && !w.volumeExists(ctx):
		return fmt.Errorf("%w; to see the plugins: berth plugin status", err)
	case w.Waits.noun != "":
		return fmt.Errorf("%w; to see why: %s", err, w.whyCommand())
	case w.Waits.Step != "":
		return fmt.Errorf("%w; %s", err, w.Waits.Step)
	}
	return err
}

// volumeExists reports whether the servers know the volume that a watch waits for, or do not say.
func (w *Watch) volumeExists(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	_, _, err := volumes.Get(limited, w.API, w.Waits.ID, &api.Query{Namespace: w.Waits.Namespace})
	return !structs.IsKind(err, structs.KindNotFound)
}

// VolumeFault adds the next step to the fault of a request about a volume.
func VolumeFault(ctx context.Context, c *command.Call, id string, err error) error {
	w := New(c)
	w.WaitFor("volume", "", id)
	return w.WithNextStep(ctx, c.DidYouMean(ctx, "volume", id, err))
}
