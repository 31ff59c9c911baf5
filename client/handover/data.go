package handover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/client/hooks/disk"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// callTimeout bounds one call to the servers.
const callTimeout = 30 * time.Second

// DataConfig has the parts of the node that Data uses.
type DataConfig struct {
	NodeID   string
	SecretID string
	Region   string
	Servers  rpc.Caller
	// Allocs returns the allocations of this node.
	Allocs func() []Alloc
	// Keep returns the time for which the node keeps data for another node.
	Keep func() time.Duration
}

// Data knows the ended allocations of a node whose data replacements have still to take over.
type Data struct{ config DataConfig }

// NewData makes the Data of a node.
func NewData(c DataConfig) *Data { return &Data{c} }

// AwaitedHere returns the allocations whose data others of this node have still to take over, each with the
// other one.
func (d *Data) AwaitedHere() map[string]string {
	awaited := map[string]string{}
	for _, r := range d.config.Allocs() {
		previous := disk.Waits(r.Alloc(), r.Dir())
		if previous != "" {
			awaited[previous] = r.ID()
		}
	}
	return awaited
}

// MayKeep reports whether an ended allocation of this node may have data for a replacement on another node.
// The servers know for how long: the clock of this node may be ahead, and does not count.
func (d *Data) MayKeep(r Alloc) bool {
	a := r.Alloc()
	return a.Job != nil && disk.Sticky(a.Job.Group(a.TaskGroup)) && d.config.Keep() > 0
}

// LastFinish returns the time at which the last task of an allocation has ended, zero if none has.
func LastFinish(r Alloc) time.Time {
	var t time.Time
	for _, s := range r.ClientState().TaskStates {
		if s.FinishedAt.After(t) {
			t = s.FinishedAt
		}
	}
	return t
}

// AwaitedElsewhere asks the servers which of some ended allocations of this node have data that a replacement
// on another node has still to take over, and that have not ended for longer than this node keeps it. It
// returns the replacement of each, "" if it has no place yet.
func (d *Data) AwaitedElsewhere(ctx context.Context, ended []Alloc) (map[string]string, error) {
	var ids []string
	for _, r := range ended {
		if d.MayKeep(r) {
			ids = append(ids, r.ID())
		}
	}

	waits := map[string]string{}
	for few := range slices.Chunk(ids, structs.MaxAllocIDs) {
		req := &nodecalls.AllocDataWaitsRequest{
			AllocIDs: few,
			NodeID:   d.config.NodeID,
			SecretID: d.config.SecretID,
			Keep:     d.config.Keep(),
		}

		req.Region = d.config.Region
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := rpc.Call(ctx, d.config.Servers, nodecalls.AllocDataWaits, req)
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

// MayLose returns a conflict if a replacement of an ended allocation has still to take over its data.
func (d *Data) MayLose(ctx context.Context, r Alloc) error {
	by, here := d.AwaitedHere()[r.ID()]
	if here {
		return structs.Conflictf("allocation %s has still to take over the data of allocation %s; retry",
			by, r.ID())
	}

	waits, err := d.AwaitedElsewhere(ctx, []Alloc{r})
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

	return structs.Conflictf("%s has still to take over the data of allocation %s; "+
		"this node keeps it for %s after its end (client.moved_data.keep), or until the job is stopped",
		heir, r.ID(), d.config.Keep())
}
