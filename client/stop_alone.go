package client

import (
	"context"
	"fmt"
	"time"

	"berth/client/membership/lease"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/structs"
)

// overdueCheck is the time between two looks for tasks that must not outlive the lease. The clock of the
// lease counts a suspend of the machine, and timers do not. So the loop looks at the clock.
const overdueCheck = time.Second

// runStopAlone ends the allocations whose group has stop_on_client_after, that long after the end of the
// lease, until ctx ends.
func runStopAlone(ctx context.Context, c *Client) {
	for backoff.Sleep(ctx, overdueCheck) {
		end := endOf(*c.lease.Load())
		for _, r := range c.allocs.all() {
			after := stopAfter(r.Alloc())
			if after != nil && c.clock() >= end.Add(*after) && !r.Stopping() {
				r.Fail(fmt.Sprintf("the servers were not reached for %s after the end of the node's lease", *after))
			}
		}
	}
}

// endOf returns the end of a lease. An agent that has none yet counts from its start.
func endOf(l lease.Lease) boottime.Instant {
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
