package client

import (
	"context"

	"berth/client/allocrunner"
	"berth/client/allocrunner/lifecycle"
)

// destroyAll stops every allocation and removes everything it used. It ends the allocations that use volumes
// before the plugins that those need, and then removes directories and records. ShutdownTimeout bounds it.
func (c *Client) destroyAll() {
	ctx, cancel := context.WithTimeout(context.Background(),
		c.config().ShutdownTimeout)
	defer cancel()
	all := c.allocs.all()
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
			c.logger.Warn("failed to stop an allocation at shutdown", "alloc_id", r.ID())
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
		if !isClosed(c.contacted) || c.allocs.countLive() > 0 {
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
