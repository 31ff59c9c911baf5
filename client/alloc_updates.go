package client

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-metrics"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// updates gathers what the servers should know of allocations: the newest of each.
type updates struct {
	sending sync.Mutex // one request at a time, so that an older state does not come after a newer one

	mu      sync.Mutex
	pending map[string]*structs.AllocClientUpdate
	ended   map[string]bool // allocations of which the servers have acknowledged that they have ended
	news    chan struct{}
}

func newUpdates() *updates {
	return &updates{
		pending: map[string]*structs.AllocClientUpdate{}, ended: map[string]bool{}, news: make(chan struct{}, 1),
	}
}

// put replaces what was to be said of the allocation. It does not block.
func (u *updates) put(a *structs.AllocClientUpdate) {
	u.mu.Lock()
	u.pending[a.ID] = a
	u.mu.Unlock()
	u.signal()
}

// putNewest is put of what state says. State is asked so that nothing newer can come before its answer.
func (u *updates) putNewest(state func() *structs.AllocClientUpdate) {
	u.mu.Lock()
	a := state()
	u.pending[a.ID] = a
	u.mu.Unlock()
	u.signal()
}

func (u *updates) signal() {
	select {
	case u.news <- struct{}{}:
	default:
	}
}

// take empties the box, in the order of IDs.
func (u *updates) take() []*structs.AllocClientUpdate {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := slices.SortedFunc(maps.Values(u.pending), func(a, b *structs.AllocClientUpdate) int {
		return strings.Compare(a.ID, b.ID)
	})
	clear(u.pending)
	return all
}

// putBack returns what could not be sent, except where something newer has come.
func (u *updates) putBack(all []*structs.AllocClientUpdate) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range all {
		if _, newer := u.pending[a.ID]; !newer {
			u.pending[a.ID] = a
		}
	}
}

func (u *updates) acknowledge(all []*structs.AllocClientUpdate) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range all {
		if a.ClientStatus == structs.AllocComplete || a.ClientStatus == structs.AllocFailed {
			u.ended[a.ID] = true
		}
	}
}

// acknowledged reports whether the servers know that an allocation has ended and nothing newer is to be
// said of it.
func (u *updates) acknowledged(a *structs.AllocClientUpdate) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, newer := u.pending[a.ID]
	return u.ended[a.ID] && !newer
}

// forget drops what is known of an allocation that is gone.
func (u *updates) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ended, id)
	delete(u.pending, id)
}

// runUpdates tells the servers what has become of allocations: gathered for a moment, again until it is
// acknowledged, and not before they were heard once.
func (c *Client) runUpdates(ctx context.Context) {
	select {
	case <-c.contacted:
	case <-ctx.Done():
		return
	}
	pause := serverRetry
	for {
		select {
		case <-c.updates.news:
		case <-ctx.Done():
			return
		}
		if !backoff.Sleep(ctx, c.config.Get().UpdateInterval) {
			return
		}
		if err := c.sendUpdates(ctx); err != nil {
			c.updates.signal()
			wait := pause.After(err)
			if ctx.Err() == nil {
				c.logger.Warn("telling the servers of allocations failed", "again_in", wait, "error", err)
			}
			if !backoff.Sleep(ctx, wait) {
				return
			}
			continue
		}
		pause.Reset()
		c.collect()
		c.gauge()
	}
}

// gauge counts the allocations on this node by their state.
func (c *Client) gauge() {
	count := map[string]int{structs.AllocPending: 0, structs.AllocRunning: 0, structs.AllocComplete: 0, structs.AllocFailed: 0}
	for _, u := range c.Allocs() {
		count[u.ClientStatus]++
	}
	for state, n := range count {
		metrics.SetGaugeWithLabels([]string{"client", "allocs"}, float32(n), []metrics.Label{{Name: "state", Value: state}})
	}
}

// updateBatch is how many allocations are reported in one call: all of them together could be more than one
// request or log entry takes.
const updateBatch = 64

// sendUpdates sends all pending updates in batches. Updates that could not be sent stay pending. A batch that
// the servers refuse as wrong does not hold up the others.
func (c *Client) sendUpdates(ctx context.Context) error {
	c.updates.sending.Lock()
	defer c.updates.sending.Unlock()
	var refused error
	all := c.updates.take()
	for len(all) > 0 {
		batch := all[:min(len(all), updateBatch)]
		err := c.sendBatch(ctx, batch)
		switch {
		case err == nil:
			c.updates.acknowledge(batch)
		case structs.IsKind(err, structs.KindInvalid):
			c.updates.putBack(batch)
			refused = err
		default:
			c.updates.putBack(all)
			return err
		}
		all = all[len(batch):]
	}
	return refused
}

func (c *Client) sendBatch(ctx context.Context, batch []*structs.AllocClientUpdate) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &structs.AllocsClientUpdateRequest{NodeID: c.id.nodeID, SecretID: c.id.secretID, Allocs: batch}
	req.Region = c.config.Get().Region
	_, err := rpc.Call(ctx, c.servers, structs.NodeUpdateAllocs, req)
	return err
}
