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

// allocUpdates holds the newest unsent state of each allocation. The servers need the newest state of each,
// and no other. So the queue is as large as the number of allocations, however often they change.
type allocUpdates struct {
	sending chan struct{} // has a value during a request: no older state follows a newer one

	mu      sync.Mutex
	pending map[string]*structs.AllocClientUpdate
	// Only such allocations may be removed from the disk: their end is not forgotten with them.
	ackedEnds map[string]bool // ended allocations that the servers have acknowledged
	changed   chan struct{}
}

func newUpdates() *allocUpdates {
	return &allocUpdates{
		sending:   make(chan struct{}, 1),
		pending:   map[string]*structs.AllocClientUpdate{},
		ackedEnds: map[string]bool{},
		changed:   make(chan struct{}, 1),
	}
}

// enqueue replaces the unsent state of the allocation. It does not block.
func (u *allocUpdates) enqueue(a *structs.AllocClientUpdate) {
	u.enqueueNewest(func() *structs.AllocClientUpdate { return a })
}

// enqueueNewest enqueues the result of state. It calls state under the lock, so that no newer state is
// enqueued before that.
func (u *allocUpdates) enqueueNewest(state func() *structs.AllocClientUpdate) {
	u.mu.Lock()

	a := state()
	u.pending[a.ID] = a
	u.mu.Unlock()
	notify(u.changed)
}

// takePending removes the unsent states and returns them in the order of IDs. From then on the caller has to
// send them, or to put them back.
func (u *allocUpdates) takePending() []*structs.AllocClientUpdate {
	u.mu.Lock()
	defer u.mu.Unlock()
	byID := func(a, b *structs.AllocClientUpdate) int {
		return strings.Compare(a.ID, b.ID)
	}
	all := slices.SortedFunc(maps.Values(u.pending), byID)
	clear(u.pending)
	return all
}

// requeue puts unsent states back, except where there is a newer one. A state that was made during the failed
// request is newer.
func (u *allocUpdates) requeue(all []*structs.AllocClientUpdate) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range all {
		if _, newer := u.pending[a.ID]; !newer {
			u.pending[a.ID] = a
		}
	}
}

// markAcked notes ends. Only the end of an allocation has an effect on what may be collected.
func (u *allocUpdates) markAcked(all []*structs.AllocClientUpdate) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range all {
		if a.ClientStatus == structs.AllocComplete || a.ClientStatus == structs.AllocFailed {
			u.ackedEnds[a.ID] = true
		}
	}
}

// isAcked reports whether the servers know that an allocation has ended, and no newer state is unsent.
func (u *allocUpdates) isAcked(a *structs.AllocClientUpdate) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, newer := u.pending[a.ID]
	return u.ackedEnds[a.ID] && !newer
}

// forgetAlloc deletes the states of a removed allocation.
func (u *allocUpdates) forgetAlloc(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ackedEnds, id)
	delete(u.pending, id)
}

// runUpdates reports the states of allocations to the servers, gathered over UpdateInterval, until they
// acknowledge them. It starts after the first pull of allocations.
func (w *work) runUpdates(ctx context.Context) {
	if !waitClosed(ctx, w.contacted) {
		return
	}

	const failed = "failed to send allocation updates"
	for {
		select {
		case <-w.updates.changed:
		case <-ctx.Done():
			return
		}

		// A start of a task changes its state several times in a moment. One call reports them all.
		if !backoff.Sleep(ctx, w.config().UpdateInterval) {
			return
		}

		if !w.retry(ctx, failed, w.sendUpdates) {
			return
		}

		// The end of an allocation is acknowledged now, so the oldest ones may go.
		w.collectDownTo(ctx, w.config().GCMaxAllocs)
		w.gaugeAllocs()
	}
}

// states returns the states of the allocations on this node, as the node reports them to the servers.
func (w *work) states() map[string]*structs.AllocClientUpdate {
	m := map[string]*structs.AllocClientUpdate{}
	for _, r := range w.allocs.all() {
		m[r.ID()] = r.ClientState()
	}
	return m
}

// gaugeAllocs counts the allocations on this node by their state. The states without allocations are in the
// list, so that their gauges return to 0.
func (w *work) gaugeAllocs() {
	count := map[string]int{
		structs.AllocPending:  0,
		structs.AllocRunning:  0,
		structs.AllocComplete: 0,
		structs.AllocFailed:   0,
	}

	for _, u := range w.states() {
		count[u.ClientStatus]++
	}
	for state, n := range count {
		label := metrics.Label{Name: "state", Value: state}
		metrics.SetGaugeWithLabels([]string{"client", "allocs"},
			float32(n), []metrics.Label{label})
	}
}

// updateBatch is the most allocations that one call reports: all of them could exceed the size limit of a
// request or a log entry.
const updateBatch = 64

// sendUpdates sends all pending updates in batches. Unsent updates stay pending. A batch that the servers
// reject as invalid does not delay the others. Another request may wait for a server that does not answer, so
// the wait for it ends with ctx: a heartbeat also sends updates.
func (w *work) sendUpdates(ctx context.Context) error {
	select {
	case w.updates.sending <- struct{}{}:
	case <-ctx.Done():
		return structs.Unavailablef("another report of allocations is in flight: %w", ctx.Err())
	}
	defer func() { <-w.updates.sending }()

	// A batch that is invalid would be so at each attempt. It stays pending, but those behind it go on.
	var rejected error
	all := w.updates.takePending()
	for len(all) > 0 {
		batch := all[:min(len(all), updateBatch)]
		err := w.sendBatch(ctx, batch)
		switch {
		case err == nil:
			w.allocs.markAcked(batch)
		case structs.IsKind(err, structs.KindInvalid):
			w.updates.requeue(batch)
			rejected = err
		default:
			w.updates.requeue(all)
			return err
		}

		all = all[len(batch):]
	}

	return rejected
}

// reportFirst returns a heartbeat that reports the states of allocations before. With the heartbeat a node
// that was down is up, and the servers replace what was lost with it. They are to know which work is done.
// A report that fails is repeated after the heartbeat.
func (reg *registration) reportFirst(
	beat func(context.Context) (renewal, error),
) func(context.Context) (renewal, error) {
	return func(ctx context.Context) (renewal, error) {
		// The other half of the time is for the heartbeat itself.
		limited, cancel := context.WithTimeout(ctx, minBeatTimeout/2)
		defer cancel()
		// Before the first contact the agent reports no states.
		if isClosed(reg.contacted) {
			err := reg.work.sendUpdates(limited)
			if err != nil {
				reg.logger.Debug("failed to report allocations before a heartbeat, retrying", "error", err)
			}
		}
		return beat(ctx)
	}
}

// sendBatch sends states as they were at takePending. Newer ones are in the queue.
func (w *work) sendBatch(ctx context.Context, batch []*structs.AllocClientUpdate) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &structs.AllocsClientUpdateRequest{
		NodeID:   w.id.NodeID,
		SecretID: w.id.SecretID,
		Allocs:   batch,
	}
	req.Region = w.config().Region
	_, err := rpc.Call(ctx, w.servers, structs.NodeUpdateAllocs, req)
	return err
}
