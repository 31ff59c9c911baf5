package job

import (
	"context"
	"slices"

	"berth/api/jobs"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

var jobStopCommand = command.Command{
	Name:     "stop",
	Args:     "<job>",
	Synopsis: "Stop a job and watch until its allocations have ended",
	Help: `
A job that runs a CSI plugin is not stopped while allocations use volumes that
nobody could unmount or detach without it. The error names them: stop their
jobs first. With -force the plugin stops all the same, and their volumes stay
mounted until it runs again.`,
	Acts: true,
	Flags: append([]command.Flag{
		{Name: "purge", Usage: "Also delete the job at once"},
		evalPriority,
		{Name: "yes", Usage: "Accepted for compatibility; the command never asks"},
		{Name: "force", Usage: "Also stop a CSI plugin that allocations need to let go of their volumes"},
		{Name: "global", Usage: "Accepted for compatibility; a job has one region"},
		alloc.NoShutdownDelay,
	}, command.DetachFlags...),
	Run: jobStop,
	Examples: "berth job stop web\n" +
		"berth job stop -purge web\n" +
		"berth job stop -force hostpath",
}

// jobStop stops a job and waits until its allocations have ended and released their volumes, unless -detach
// is given.
func jobStop(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	job, _, err := jobs.Get(ctx, c.API, id, nil)
	if structs.IsKind(err, structs.KindNotFound) { // the next request succeeds nevertheless
		return c.DidYouMean(ctx, "job", id, err)
	}

	on, err := c.On(job, err)
	if err != nil {
		return err
	}
	answer, err := jobs.Deregister(ctx, on, id, jobs.DeregisterOptions{
		Purge:           c.Bool("purge"),
		EvalPriority:    int(c.Number("eval-priority")),
		NoShutdownDelay: c.Bool(alloc.NoShutdownDelay.Name),
		Force:           c.Bool("force"),
	})
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}

	return watch.New(c).Follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch.Watch) error {
		w.WriteChange("request", "Job %q is stopping", id)
		if answer.EvalID != "" {
			_, err := w.AwaitEvaluation(ctx, answer.EvalID)
			if err != nil {
				return err
			}
		}
		return w.AwaitJobEnd(ctx, id, volumesOf(job))
	})
}

// maxHeldShown bounds the volumes of one group, one per allocation, that a stop of the job follows.
const maxHeldShown = 128

// volumesOf returns the IDs of the volumes that the allocations of a job use.
func volumesOf(job *structs.Job) (ids []string) {
	if job == nil {
		return nil
	}

	for _, g := range job.TaskGroups {
		for _, v := range g.Volumes {
			if !v.NeedsClaim() || v.Lifecycle == structs.LifecycleAlloc {
				continue
			}
			for n := range min(max(g.Count, 1), maxHeldShown) {
				ids = append(ids, v.VolumeID(n, ""))
			}
		}
	}

	slices.Sort(ids)
	return slices.Compact(ids)
}
