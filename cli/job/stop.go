package job

import (
	"context"
	"fmt"
	"slices"

	"berth/api"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

var jobStopCommand = command.Command{
	Name:     "stop",
	Args:     "<job>",
	Synopsis: "Stop a job and watch until its allocations have ended",
	Acts:     true,
	Flags: append([]command.Flag{
		{Name: "purge", Usage: "Also delete the job at once"},
		evalPriority,
		{Name: "yes", Usage: "Accepted for compatibility; the command never asks"},
		{Name: "global", Usage: "Accepted for compatibility; a job has one region"},
		alloc.NoShutdownDelay,
	}, command.DetachFlags...),
	Run: jobStop,
	Examples: "berth job stop web\n" +
		"berth job stop -purge web",
}

func jobStop(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	job, _, err := c.API.Job(ctx, id, nil)
	if structs.IsKind(err, structs.KindNotFound) { // the next request succeeds nevertheless
		return c.DidYouMean(ctx, "job", id, err)
	}
	if err == nil { // otherwise the next request fails, too
		warnOfVolumes(ctx, c, job)
	}

	answer, err := c.API.JobDeregister(ctx, id, api.JobDeregisterOptions{
		Purge:           c.Bool("purge"),
		EvalPriority:    int(c.Number("eval-priority")),
		NoShutdownDelay: c.Bool(alloc.NoShutdownDelay.Name),
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
			if v.Type != structs.VolumeTypeCSI {
				continue
			}
			for n := range min(max(g.Count, 1), maxHeldShown) {
				ids = append(ids, v.VolumeID(n))
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// serves reports whether an allocation of a job has an instance of a plugin. A job whose allocations were
// rejected as duplicates has none.
func serves(ctx context.Context, c *command.Call, job *structs.Job, plugin string) bool {
	p, _, err := c.API.Plugin(ctx, plugin, nil)
	if err != nil {
		return false
	}
	allocs, _, err := c.API.JobAllocations(ctx, job.ID, false, nil)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(allocs, func(a *structs.AllocListStub) bool {
		for _, i := range []*structs.CSIInfo{p.Controllers[a.NodeID], p.Nodes[a.NodeID]} {
			if i != nil && i.AllocID == a.ID {
				return true
			}
		}
		return false
	})
}

// warnOfVolumes warns before the stop of a job that runs a plugin if volumes of the plugin are in use. It
// does not prevent the stop, and it ignores errors.
func warnOfVolumes(ctx context.Context, c *command.Call, job *structs.Job) {
	for _, plugin := range job.Plugins() {
		filter := api.VolumeFilter{PluginID: plugin}
		q := &api.Query{Namespace: structs.AllNamespaces}
		volumes, _, err := c.API.Volumes(ctx, filter, q)
		if err != nil || !serves(ctx, c, job, plugin) {
			return
		}

		inUse := 0
		for _, v := range volumes {
			if v.CurrentReaders+v.CurrentWriters > 0 {
				inUse++
			}
		}

		verb := "are"
		if inUse == 1 {
			verb = "is"
		}

		if inUse > 0 {
			fmt.Fprintf(c.Err, "Warning: %s %s in use that plugin %q serves; without the plugin "+
				"no node can mount or unmount them\n", command.Plural(inUse, "volume"), verb, plugin)
		}
	}
}
