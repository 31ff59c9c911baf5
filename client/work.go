package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/client/allocrunner"
	"berth/client/allocrunner/lifecycle"
	"berth/client/handover"
	"berth/rpc"
	"berth/structs"
	"berth/structs/storage"
)

// fetchBatch is the most allocations that one call fetches. The answer has each allocation with its whole
// job, so this bounds its size.
const fetchBatch = 64

// work runs the allocations that the servers place on the node, and reports their states.
type work struct {
	*node
	registration *registration
	claims       *claims

	allocs  *allocSet
	updates *allocUpdates
	holds   *handover.Tracker
	data    *handover.Data

	life     context.Context // of the runners; Client.Run sets it before there is one
	wg       sync.WaitGroup  // the runners
	restored chan struct{}   // closed: the allocations of an earlier agent have their runners
	pullAnew chan struct{}   // has a value: runAllocs has to pull from index 0
}

func newWork(n *node, k *claims) *work {
	updates := newUpdates()
	return &work{
		node:     n,
		claims:   k,
		allocs:   newAllocSet(updates),
		updates:  updates,
		restored: make(chan struct{}),
		pullAnew: make(chan struct{}, 1),
	}
}

// runnerDeps is read for each new runner, so a runner has the settings of the time of its start.
func (w *work) runnerDeps() allocrunner.Deps {
	cfg := w.config()
	deps := allocrunner.Deps{
		Logger:           w.logger,
		DB:               w.db,
		Dir:              cfg.AllocDir(),
		Region:           cfg.Region,
		Drivers:          w.subsystems.Drivers,
		Node:             w.registration.row.Load,
		AllocHooks:       w.subsystems.AllocHooks,
		TaskHooks:        w.subsystems.TaskHooks,
		ServersContacted: w.contacted,
		LeaseEnded:       w.subsystems.LeaseEnded,
		Changed:          w.updates.enqueue,
		DeniedUsers:      cfg.DeniedUsers(),
		MaxKillTimeout:   cfg.MaxKillTimeout,
	}

	if w.consul != nil { // a nil Consul in another interface would not be nil
		deps.Consul = w.consul
	}

	return deps
}

// restoreAllocs starts the runners of the allocations in the store. Allocations that run plugins come first,
// and it waits until their runners have searched for their tasks: the others may need the plugins.
func (w *work) restoreAllocs(ctx context.Context) {
	allocs, err := allocrunner.Saved(w.db)
	if err != nil {
		w.logger.Error("failed to read some records of allocations", "error", err)
	}
	for _, plugins := range []bool{true, false} {
		for _, alloc := range allocs {
			if runsPlugin(alloc) == plugins {
				w.restoreAlloc(ctx, alloc)
			}
		}
	}
	if len(allocs) > 0 {
		w.logger.Info("restored allocations", "allocs", len(allocs))
	}
}

// restoreAlloc gives each record a runner, so that whatever the allocation left is found and ended.
func (w *work) restoreAlloc(ctx context.Context, alloc *structs.Allocation) {
	r, err := allocrunner.Restore(w.runnerDeps(), alloc)
	if err != nil {
		// Its processes may run and its volumes may be mounted, so it needs a runner.
		w.logger.Error("failed to read the record of an allocation, restoring it without",
			"alloc_id", alloc.ID, "error", err)
		r, err = allocrunner.Salvage(w.runnerDeps(), alloc)
	}
	if err != nil {
		w.logger.Error("failed to restore an allocation",
			"alloc_id", alloc.ID, "error", err)
		return
	}
	w.startRunner(r)
	if runsPlugin(alloc) {
		waitAttached(ctx, r)
	}
}

// waitAttached waits until each runner has looked once for running tasks of an earlier agent.
func waitAttached(ctx context.Context, runners ...*allocrunner.Runner) {
	for _, r := range runners {
		select {
		case <-r.Reached(lifecycle.Attached):
		case <-r.Reached(lifecycle.Ended):
		case <-ctx.Done():
			return
		}
	}
}

// startRunner runs an allocation until it is destroyed or the agent stops. The agent's own end leaves the
// allocation in the store, for the next agent.
func (w *work) startRunner(r *allocrunner.Runner) {
	w.allocs.add(r)
	w.wg.Go(func() {
		r.Run(w.life)
		// The agent stops: the set stays as it is, since nothing reads it any more.
		if w.life.Err() != nil {
			return
		}
		w.holds.Forget(r.ID()) // without the lock of the set, which CapacityHolder takes second
		w.allocs.remove(r.ID())
	})
}

// runAllocs runs, updates and removes the allocations of this node as the servers demand.
func (w *work) runAllocs(ctx context.Context) {
	if !waitClosed(ctx, w.registered) {
		return
	}

	var index uint64
	// It is the time of the last check of the claims: not each change of the list is a reason for one.
	var checked time.Time
	pull := func(ctx context.Context) error {
		// It is read before the request: a return that begins during the request needs a list of its own.
		epoch := w.servers.Epoch()
		since := index
		index = 0 // after a failure: since may belong to a state that the servers no longer have
		resp, err := w.awaitWanted(ctx, since)
		// It is no failure, so the next pull follows at once, with index 0.
		if errors.Is(err, errStateRestored) {
			return nil
		}
		if err == nil {
			err = w.applyWanted(ctx, resp.Allocs)
		}

		if err == nil {
			w.registration.comeback.Pulled(epoch)
		}

		// An index that has gone back shows a restore. The claims of the node may be gone with it.
		if err == nil &&
			(resp.Index < since || time.Since(checked) > claimCheckInterval) {
			err = w.claims.check.Run(ctx)
			if err == nil {
				checked = time.Now()
			}
		}

		switch {
		case err == nil:
			index = resp.Index // may be lower than before, after a restore of the servers
			w.contactedOnce.Do(func() { close(w.contacted) })
		// The node has no row, so it has to register before it can pull again.
		case structs.IsKind(err, structs.KindNotFound):
			notify(w.registration.due)
		}

		return err
	}

	for ctx.Err() == nil {
		w.retry(ctx, "failed to fetch the allocations of this node", pull)
	}
}

// errStateRestored ends a blocking pull: the servers were restored and may have a lower index.
var errStateRestored = errors.New("the servers went back to an older state")

// awaitWanted waits until the list of allocations has changed since index, and returns it.
func (w *work) awaitWanted(ctx context.Context, index uint64) (*structs.NodeClientAllocsResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Only the goroutine below writes it, and watch.Wait orders the read after that.
	restored := false
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-w.pullAnew:
			restored = true
			cancel()
		case <-ctx.Done():
		}
	})

	// A long wait costs the servers few queries.
	req := &structs.NodeGetRequest{
		NodeID:   w.id.NodeID,
		SecretID: w.id.SecretID,
	}

	req.Region = w.config().Region
	req.MinIndex = index
	req.MaxWait = 5 * time.Minute
	resp, err := rpc.Call(ctx, w.servers, structs.NodeClientAllocs, req)
	cancel()
	watch.Wait() // it may take the signal after the answer has come
	if restored {
		return nil, errStateRestored
	}

	return resp, err
}

// applyWanted compares this node's allocations with the servers' list. It fetches and applies new and changed
// ones, and destroys the ones that the servers no longer know. After an error the caller repeats the whole
// call.
func (w *work) applyWanted(ctx context.Context, wanted map[string]uint64) error {
	changed, others, gone := w.allocs.compare(wanted)
	for _, r := range gone {
		r.Destroy()
	}

	slices.Sort(changed)
	slices.Sort(others)
	fetch := slices.Concat(changed, others) // allocations that are here may make way for others
	for ids := range slices.Chunk(fetch, fetchBatch) {
		err := w.fetchAllocs(ctx, ids, wanted)
		if err != nil {
			return err
		}
	}

	return nil
}

// fetchAllocs fetches allocations and applies them. It fails if one of them is missing in the answer, or is
// older there than in the list. An answer of a server that lags would otherwise undo a newer state.
func (w *work) fetchAllocs(ctx context.Context, ids []string, wanted map[string]uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &structs.AllocsGetRequest{
		AllocIDs: ids,
		NodeID:   w.id.NodeID,
		SecretID: w.id.SecretID,
	}

	req.Region = w.config().Region
	// A node has allocations of all namespaces.
	req.Namespace = structs.AllNamespaces
	resp, err := rpc.Call(ctx, w.servers, structs.AllocsGet, req)
	if err != nil {
		return err
	}

	slices.SortStableFunc(resp.Allocs, func(a, b *structs.Allocation) int {
		return strings.Compare(a.ID, b.ID)
	})

	// Those of one ID would not see each other's runner.
	allocs := slices.CompactFunc(resp.Allocs, func(a, b *structs.Allocation) bool { return a.ID == b.ID })
	var here, others []*structs.Allocation
	for _, a := range allocs {
		storage.ResolveHostVolumes(a)
		switch {
		// It is older than the list: the answer is of another server.
		case a.AllocModifyIndex < wanted[a.ID]:
		case w.allocs.get(a.ID) != nil:
			here = append(here, a)
		default:
			others = append(others, a)
		}
	}

	err = w.applyAllocs(here) // first: they may make way for others
	if err == nil {
		err = w.applyAllocs(others)
	}

	// The caller repeats the pull, as the whole list may have changed.
	missing := len(ids) - len(here) - len(others)
	if err == nil && missing > 0 {
		err = structs.Unavailablef("%d of %d allocations came back missing or out of date", missing, len(ids))
	}

	return err
}

// applyAllocs applies allocations at the same time, because each waits for the disk.
func (w *work) applyAllocs(allocs []*structs.Allocation) error {
	var all sync.WaitGroup
	errs := make([]error, len(allocs))
	for i, alloc := range allocs {
		all.Go(func() { errs[i] = w.applyAlloc(alloc) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// applyAlloc applies one allocation. It reports an allocation that cannot run as failed. It ignores one
// that has ended and is not here. If something of an ended one is left here, because the servers took it
// for lost, it ends the tasks of that allocation. It reports one whose state the servers do not know
// after a loss of this node.
func (w *work) applyAlloc(alloc *structs.Allocation) error {
	if r := w.allocs.get(alloc.ID); r != nil {
		err := r.Update(alloc)
		if err == nil && alloc.IsUnknown() {
			w.updates.enqueueNewest(r.ClientState)
		}

		return err
	}

	left := alloc.ClientTerminal() &&
		allocrunner.Leftover(w.runnerDeps(), alloc.ID)
	if alloc.ClientTerminal() && !left {
		w.allocs.ignore(alloc, endedAs(alloc))
		return nil
	}

	// This agent has run it and reported its end. The servers have lost that, and get it again.
	if ended := w.allocs.endedHere(alloc.ID); ended != nil && !left {
		w.allocs.ignore(alloc, ended)
		w.updates.enqueue(ended)
		return nil
	}

	r, err := allocrunner.New(w.runnerDeps(), alloc)
	// Only its specification can be invalid, so another attempt would fail as well.
	if structs.IsKind(err, structs.KindInvalid) {
		w.logger.Error("failed to run an allocation",
			"alloc_id", alloc.ID, "error", err)
		failed := &structs.AllocClientUpdate{
			ID:                alloc.ID,
			ClientStatus:      structs.AllocFailed,
			ClientDescription: err.Error(),
		}

		w.allocs.ignore(alloc, failed)
		w.updates.enqueue(failed)
		return nil
	}
	if err != nil {
		// It is a fault of this machine, for example a full disk, so the caller tries again.
		return err
	}

	if left {
		r.Abandon("it has ended for the servers")
	}

	w.startRunner(r)
	return nil
}

// CollectEnded destroys what is left of all allocations that have ended and returns their number. See
// collectDownTo for the ones that it keeps.
func (c *Client) CollectEnded(ctx context.Context) int {
	return c.work.collectDownTo(ctx, 0)
}

// collectDownTo destroys the directories of allocations that have ended and released everything, and whose
// end the servers have acknowledged: the oldest first, until most are left. Those whose data another
// allocation takes over stay besides. It asks the servers for those only if there are too many.
func (w *work) collectDownTo(ctx context.Context, most int) (collected int) {
	var ended []*allocrunner.Runner
	// The local answer comes first, since it costs no call.
	here := w.data.AwaitedHere()
	for _, r := range w.allocs.all() {
		_, keep := here[r.ID()]
		if isClosed(r.Unwound()) && !keep && w.updates.isAcked(r.ClientState()) {
			ended = append(ended, r)
		}
	}

	if len(ended) <= most {
		return 0
	}

	elsewhere, err := w.data.AwaitedElsewhere(ctx, asAllocs(ended))
	if err != nil {
		w.logger.Warn("failed to ask which data is needed on other nodes, collecting other allocations",
			"error", err)
	}

	ended = slices.DeleteFunc(ended, func(r *allocrunner.Runner) bool {
		_, keep := elsewhere[r.ID()]
		// Servers that do not answer place nothing, so what is kept for them does not grow.
		return keep || err != nil && w.data.MayKeep(r)
	})

	slices.SortFunc(ended, func(a, b *allocrunner.Runner) int {
		return handover.LastFinish(a).Compare(handover.LastFinish(b))
	})

	ended = ended[:max(0, len(ended)-most)]
	for _, r := range ended {
		w.collect(r)
	}

	return len(ended)
}

// CollectAlloc removes the directory of an allocation that has ended. The error is not-found if the
// allocation is not here, a conflict if it has not ended or not released everything, or another one has still
// to take over its data, and unavailable while the servers do not know its end.
func (c *Client) CollectAlloc(ctx context.Context, allocID string) error {
	r, err := c.Find(allocID)
	if err != nil {
		return err
	}
	if !isClosed(r.Unwound()) {
		return structs.Conflictf("allocation %s is %s; only one that has ended and released everything is removed",
			allocID, r.ClientState().ClientStatus)
	}
	if err := c.work.data.MayLose(ctx, r); err != nil {
		return err
	}
	if !c.work.updates.isAcked(r.ClientState()) {
		return structs.Unavailablef("the servers do not know yet that allocation %s has ended; retry", allocID)
	}
	c.work.collect(r)
	return nil
}

// collect destroys what is left of an allocation whose end the servers know. The final state is kept without
// the runner, since the servers list the allocation until they delete it.
func (w *work) collect(r *allocrunner.Runner) {
	w.allocs.ignore(r.Alloc(), r.ClientState())
	r.Destroy()
}
