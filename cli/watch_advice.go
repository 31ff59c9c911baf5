package cli

import (
	"context"
	"fmt"

	"berth/api"
	"berth/structs"
)

// whyCommand returns the command that explains the wait, "" if nothing is known of it.
func (w *watch) whyCommand() string {
	switch w.waits.noun {
	case "":
		return ""
	case "node":
		return structs.CommandLine("", "node status", w.waits.id)
	}
	return structs.CommandLine(w.waits.namespace, w.waits.noun+" why", w.waits.id)
}

// advice returns the next step of a user whose watch has ended before the wait, or "".
func (w *watch) advice() string {
	switch command := w.whyCommand(); {
	case command != "":
		return "; to see what it waits for: " + command
	case w.waits.step != "":
		return "; " + w.waits.step
	}
	return ""
}

// withNextStep adds the next step to the fault of a watch or a request. Some faults have one already: those
// of the command line, those of servers that do not answer, and those of something that does not exist.
func (w *watch) withNextStep(ctx context.Context, err error) error {
	volume := w.waits.noun == "volume"
	switch kind := structs.KindOf(err); {
	case kind == structs.KindInvalid, kind == structs.KindNotFound:
		return err
	case kind == structs.KindUnavailable && w.waits.noun != "" && !volume:
		return err
	case volume && !w.volumeExists(ctx):
		return fmt.Errorf("%w; to see the plugins: berth plugin status", err)
	case w.waits.noun != "":
		return fmt.Errorf("%w; to see why: %s", err, w.whyCommand())
	case w.waits.step != "":
		return fmt.Errorf("%w; %s", err, w.waits.step)
	}
	return err
}

// volumeExists reports whether the servers know the volume that a watch waits for, or do not say.
func (w *watch) volumeExists(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	_, _, err := w.api.Volume(limited, w.waits.id, &api.Query{Namespace: w.waits.namespace})
	return !structs.IsKind(err, structs.KindNotFound)
}

// volumeFault adds the next step to the fault of a request about a volume.
func volumeFault(ctx context.Context, c *Call, id string, err error) error {
	w := newWatch(c)
	w.waitFor("volume", "", id)
	return w.withNextStep(ctx, c.didYouMean(ctx, "volume", id, err))
}
