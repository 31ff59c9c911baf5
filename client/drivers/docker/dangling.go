package docker

import (
	"context"
	"slices"
	"time"

	"github.com/moby/moby/api/types/container"

	"berth/internal/backoff"
)

// removeDangling removes the containers of this node that belong to no task, at intervals until ctx ends. A
// container is removed by the second search that finds it: after the start of the agent, and after an absence
// of the daemon, the tasks need time to take up their containers.
func (d *Driver) removeDangling(ctx context.Context) {
	g := d.cfg.GC.Dangling
	if !g.Enabled {
		return
	}
	var before map[string]bool
	for backoff.Sleep(ctx, g.Period) {
		before = d.searchDangling(ctx, before)
	}
}

// searchDangling removes the dangling containers that an earlier search has found, and returns all that it
// finds.
func (d *Driver) searchDangling(ctx context.Context, before map[string]bool) map[string]bool {
	list, err := d.engine.List(ctx, labelNode+"="+d.options.NodeID)
	if err != nil {
		// Without a list nothing has been seen a first time: an absence of the daemon begins the count again.
		d.noteFailure(err)
		return nil
	}

	found := map[string]bool{}
	for _, c := range list {
		name, wanted := d.tasks.useOf(c.Labels)
		if !slices.Contains(c.Names, "/"+name) {
			continue // an image that somebody made from a task's container has the labels, too
		}

		age := time.Since(time.Unix(c.Created, 0))
		if wanted || age < d.cfg.GC.Dangling.CreationGrace {
			continue
		}

		if !d.cfg.GC.Container && c.State != "running" {
			continue // it was kept
		}

		found[c.ID] = true
		// The first search only notes the container: see removeDangling.
		if before[c.ID] {
			d.removeOne(ctx, c)
		}
	}

	return found
}

// removeOne removes a dangling container. Its image counts as used until then.
func (d *Driver) removeOne(ctx context.Context, c container.Summary) {
	taskID := c.Labels[labelTask]
	logger := d.logger.With("container_id", c.ID, "task_id", taskID)
	if d.cfg.GC.Dangling.DryRun {
		logger.Info("found a dangling container; a dry run leaves it")
		return
	}

	if taskID == "" {
		err := d.pauses.release(ctx, c.Labels[labelPause])
		if err != nil {
			logger.Warn("failed to remove a dangling pause container, retrying", "error", err)
		}
		return
	}

	user := "dangling " + c.ID
	d.images.Hold(c.ImageID, user)
	defer d.images.Release(user)
	err := removeContainer(ctx, d.engine, c.ID)
	if err != nil {
		d.noteFailure(err)
		logger.Warn("failed to remove a dangling container, retrying", "error", err)
		return
	}

	if d.tasks.isWanted(taskID) {
		return // it was started again meanwhile
	}

	err = d.output.stop(ctx, taskID)
	if err != nil {
		logger.Warn("failed to end the collection of the output of a dangling container", "error", err)
	}

	logger.Info("removed a dangling container")
}
