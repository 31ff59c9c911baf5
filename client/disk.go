package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/client/allocrunner"
	"berth/client/hooks/disk"
	"berth/rpc"
	"berth/structs"
)

// localAlloc finds an allocation on this node whose data another one may take over.
func (c *Client) localAlloc(allocID string) (disk.Local, bool) {
	r := c.runner(allocID)
	if r == nil {
		return disk.Local{}, false
	}
	return disk.Local{
		Alloc:   r.Alloc(),
		Dir:     r.Dir(),
		Unwound: r.Unwound(),
	}, true
}

// awaitedData returns the allocations whose data others of this node have still to take over, each with the
// other one.
func (c *Client) awaitedData() map[string]string {
	awaited := map[string]string{}
	for _, r := range c.allRunners() {
		previous := disk.Waits(r.Alloc(), r.Dir())
		if previous != "" {
			awaited[previous] = r.ID()
		}
	}
	return awaited
}

// keptUntil returns the time until which this node keeps the data of an ended allocation for a replacement on
// another node, and false if it has none.
func (c *Client) keptUntil(r *allocrunner.Runner) (time.Time, bool) {
	a := r.Alloc()
	if a.Job == nil || !disk.Sticky(a.Job.Group(a.TaskGroup)) {
		return time.Time{}, false
	}
	ended := lastFinish(r.ClientState())
	if ended.IsZero() { // no task of it has started, but it may have taken over data
		ended = time.Unix(0, a.ModifyTime)
	}
	until := ended.Add(c.config().MovedData.Keep)
	return until, time.Now().Before(until)
}

// awaitedElsewhere asks the servers which of some ended allocations of this node have data that a replacement
// on another node has still to take over. It returns the replacement of each, "" if it has no place yet.
func (c *Client) awaitedElsewhere(
	ctx context.Context, runners []*allocrunner.Runner,
) (map[string]string, error) {
	var ids []string
	for _, r := range runners {
		if _, kept := c.keptUntil(r); kept {
			ids = append(ids, r.ID())
		}
	}
	waits := map[string]string{}
	for few := range slices.Chunk(ids, structs.MaxAllocIDs) {
		req := &structs.AllocDataWaitsRequest{
			AllocIDs: few,
			NodeID:   c.id.NodeID,
			SecretID: c.id.SecretID,
		}
		req.Region = c.config().Region
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := rpc.Call(ctx, c.servers, structs.AllocDataWaits, req)
		cancel()
		if err != nil {
			return nil, err
		}
		for id, by := range resp.Waits {
			waits[id] = by
		}
	}
	return waits, nil
}

// mayLose returns a conflict if a replacement of an ended allocation has still to take over its data.
func (c *Client) mayLose(ctx context.Context, r *allocrunner.Runner) error {
	by, here := c.awaitedData()[r.ID()]
	if here {
		return structs.Conflictf("allocation %s has still to take over the data of allocation %s; retry",
			by, r.ID())
	}
	waits, err := c.awaitedElsewhere(ctx, []*allocrunner.Runner{r})
	if err != nil {
		return fmt.Errorf("asking whether the data of allocation %s is needed: %w", r.ID(), err)
	}
	by, awaited := waits[r.ID()]
	if !awaited {
		return nil
	}
	heir := "allocation " + by + ", on another node,"
	if by == "" {
		heir = "its replacement, which has no place yet,"
	}
	until, _ := c.keptUntil(r)
	return structs.Conflictf("%s has still to take over the data of allocation %s; "+
		"this node keeps it until %s (client.moved_data.keep), or until the job is stopped",
		heir, r.ID(), until.UTC().Format(time.RFC3339))
}

// report adds an event to the tasks of an allocation.
func (c *Client) report(allocID, message string) {
	if r := c.runner(allocID); r != nil {
		r.Report(message)
	}
}
