package client

import (
	"context"
	"fmt"
	"time"

	"berth/client/allocrunner"
	"berth/client/allocrunner/lifecycle"
	"berth/client/membership"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/structs"
)

// destroyAll stops every allocation and removes everything it used. It ends the allocations that use volumes
// before the plugins that those need, and then removes directories and records. ShutdownTimeout bounds it.
func (w *work) destroyAll() {
	ctx, cancel := context.WithTimeout(context.Background(),
		w.config().ShutdownTimeout)
	defer cancel()
	all := w.allocs.all()
	// A plugin unmounts the volumes of the others, so its allocation ends after theirs.
	for _, plugins := range []bool{false, true} {
		var stopped []*allocrunner.Runner
		for _, r := range all {
			if runsPlugin(r.Alloc()) == plugins {
				r.Stop("the node agent shuts down")
				stopped = append(stopped, r)
			}
		}

		// Once the time is over, this returns at once: the rest is stopped without a wait.
		for _, r := range stopped {
			waitClosed(ctx, r.Unwound())
		}
	}

	for _, r := range all {
		r.Destroy()
	}

	for _, r := range all {
		if !waitClosed(ctx, r.Reached(lifecycle.Ended)) {
			w.logger.Warn("failed to stop an allocation at shutdown", "alloc_id", r.ID())
		}
	}
}

// releaseNode removes what the subsystems made for the node itself: everything if the agent has destroyed the
// allocations, otherwise only what no task can be using.
func (c *Client) releaseNode() {
	release := c.subsystems.Destroy
	if !c.config().DestroyOnShutdown {
		release = c.subsystems.Release
		// Before the servers have sent the allocations of the node, it may have tasks of which it has no record.
		if !isClosed(c.contacted) || c.work.allocs.countLive() > 0 {
			return
		}
	}
	if release == nil {
		return
	}
	if err := release(); err != nil {
		c.logger.Warn("failed to release everything at shutdown", "error", err)
	}
}

// Leave drains the node before its agent stops, if the configuration has drain_on_shutdown. Run continues
// meanwhile. Leave ends with ctx; membership.LeavingNode has the other bounds.
func (c *Client) Leave(ctx context.Context) {
	cfg := c.config().DrainOnShutdown
	if cfg != nil {
		c.registration.departure.Leave(ctx, cfg)
	}
}

// Its request writes the row of the node, so it takes turns with registrations.
func (reg *registration) newDeparture() *membership.LeavingNode {
	return &membership.LeavingNode{
		ID:       reg.id.NodeID,
		SecretID: reg.id.SecretID,
		Region:   reg.config().Region,
		Servers:  reg.servers,
		Logger:   reg.logger,
		Lock:     reg.lockNode,
	}
}

// overdueCheck is the time between two looks for tasks that must not outlive the lease. The clock of the
// lease counts a suspend of the machine, and timers do not. So the loop looks at the clock.
const overdueCheck = time.Second

// runStopAlone ends the allocations whose group has stop_on_client_after, that long after the end of the
// lease, until ctx ends.
func (w *work) runStopAlone(ctx context.Context) {
	for backoff.Sleep(ctx, overdueCheck) {
		end := endOf(*w.registration.lease.Load())
		for _, r := range w.allocs.all() {
			after := stopAfter(r.Alloc())
			if after != nil && w.clock() >= end.Add(*after) && !r.Stopping() {
				r.StopAlone(fmt.Sprintf("the servers were not reached for %s after the end of the node's lease", *after))
			}
		}
	}
}

// endOf returns the end of a lease. An agent that has none yet counts from its start.
func endOf(l membership.Lease) boottime.Instant {
	if l.TTL <= 0 {
		return l.Since
	}
	return l.Until()
}

// stopAfter returns the stop_on_client_after of the group of an allocation, nil if it has none.
func stopAfter(a *structs.Allocation) *time.Duration {
	g := a.Job.Group(a.TaskGroup)
	if g == nil || g.Disconnect == nil {
		return nil
	}
	return g.Disconnect.StopOnClientAfter
}
