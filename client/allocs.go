package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"berth/client/allocrunner"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// fetchBatch is how many allocations are fetched in one call.
const fetchBatch = 64

func (c *Client) runnerDeps() allocrunner.Deps {
	cfg := c.config.Get()
	return allocrunner.Deps{
		Logger: c.logger, DB: c.db, Dir: cfg.AllocDir(), Region: cfg.Region, Drivers: c.sub.Drivers,
		Node: c.Node, AllocHooks: c.sub.AllocHooks, TaskHooks: c.sub.TaskHooks,
		ServersContacted: c.contacted, Changed: c.updates.put, DeniedUsers: cfg.DeniedUsers(),
	}
}

// restore takes up the allocations in the store. Those that run plugins come first, and their tasks are
// looked for before the others begin: the others may need them.
func (c *Client) restore(ctx context.Context) {
	allocs, err := allocrunner.Saved(c.db)
	if err != nil {
		c.logger.Error("some records of allocations cannot be read", "error", err)
	}
	slices.SortStableFunc(allocs, func(a, b *structs.Allocation) int {
		return cmp.Compare(btoi(runsPlugin(b)), btoi(runsPlugin(a)))
	})
	for _, alloc := range allocs {
		r, err := allocrunner.Restore(c.runnerDeps(), alloc)
		if err != nil {
			// Its processes may run and its volumes be mounted: it is not to be without a runner.
			c.logger.Error("the record of an allocation cannot be read, it is taken up without", "alloc_id", alloc.ID, "error", err)
			r, err = allocrunner.Salvage(c.runnerDeps(), alloc)
		}
		if err != nil {
			c.logger.Error("an allocation cannot be restored", "alloc_id", alloc.ID, "error", err)
			continue
		}
		c.start(r)
		if runsPlugin(alloc) {
			c.waitAttached(ctx, r)
		}
	}
	if len(allocs) > 0 {
		c.logger.Info("allocations of a former agent are taken up", "allocs", len(allocs))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// waitAttached waits until each was asked once whether something of it still runs.
func (c *Client) waitAttached(ctx context.Context, runners ...*allocrunner.Runner) {
	for _, r := range runners {
		select {
		case <-r.Attached():
		case <-r.Ended():
		case <-ctx.Done():
			return
		}
	}
}

// start runs an allocation until it is destroyed or the agent stops.
func (c *Client) start(r *allocrunner.Runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runners[r.ID()] = r
	delete(c.ignored, r.ID())
	c.wg.Go(func() {
		r.Run(c.life)
		if c.life.Err() != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.runners, r.ID())
		c.updates.forget(r.ID())
	})
}

// runAllocs follows what the servers want this node to run.
func (c *Client) runAllocs(ctx context.Context) {
	select {
	case <-c.registered:
	case <-ctx.Done():
		return
	}
	pause := serverRetry
	var index uint64
	var checked time.Time
	for ctx.Err() == nil {
		resp, err := c.wanted(ctx, index)
		if err == nil {
			err = c.pull(ctx, resp.Allocs)
		}
		if err == nil && (resp.Index < index || time.Since(checked) > claimsCheck) {
			if err = c.checkClaims(ctx); err == nil {
				checked = time.Now()
			}
		}
		if err == nil {
			pause.Reset()
			index = resp.Index // an older one, after the servers were restored, is as good
			c.contactedOnce.Do(func() { close(c.contacted) })
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if structs.IsKind(err, structs.KindNotFound) {
			c.registerAgain()
		}
		index = 0 // it may be of a state that the servers do not have any more
		if errors.Is(err, errAnew) {
			continue
		}
		wait := pause.After(err)
		c.logger.Warn("learning which allocations to run failed", "again_in", wait, "error", err)
		backoff.Sleep(ctx, wait)
	}
}

// errAnew ends a wait for news: the servers' state was restored, and may have an older index.
var errAnew = errors.New("the servers went back to an older state")

// wanted waits for news after index.
func (c *Client) wanted(ctx context.Context, index uint64) (*structs.NodeClientAllocsResponse, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-c.anew:
			cancel(errAnew)
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer cancel(nil)
	resp, err := c.askWanted(ctx, index)
	if cause := context.Cause(ctx); errors.Is(cause, errAnew) {
		return nil, cause
	}
	return resp, err
}

func (c *Client) askWanted(ctx context.Context, index uint64) (*structs.NodeClientAllocsResponse, error) {
	req := &structs.NodeGetRequest{NodeID: c.id.nodeID, SecretID: c.id.secretID}
	req.Region, req.MinIndex, req.MaxWait = c.config.Get().Region, index, 5*time.Minute
	return rpc.Call(ctx, c.servers, structs.NodeClientAllocs, req)
}

// pull brings this node in line with what the servers want: it starts and changes what is new to it and
// destroys what they no longer know. It is all to be done again after an error.
func (c *Client) pull(ctx context.Context, wanted map[string]uint64) error {
	c.mu.Lock()
	var fetch []string
	for id, index := range wanted {
		if c.haveAt(id) != index { // an older one, too: the servers may have been restored
			fetch = append(fetch, id)
		}
	}
	var gone []*allocrunner.Runner
	for id, r := range c.runners {
		if _, ok := wanted[id]; !ok {
			gone = append(gone, r)
		}
	}
	for id := range c.ignored {
		if _, ok := wanted[id]; !ok {
			delete(c.ignored, id)
		}
	}
	c.mu.Unlock()
	for _, r := range gone {
		r.Destroy()
	}
	slices.Sort(fetch)
	for ids := range slices.Chunk(fetch, fetchBatch) {
		if err := c.fetch(ctx, ids, wanted); err != nil {
			return err
		}
	}
	return nil
}

// haveAt is the index at which this node knows an allocation, 0 when it does not. c.mu is held.
func (c *Client) haveAt(id string) uint64 {
	if i, ok := c.ignored[id]; ok {
		return i.index
	}
	if r, ok := c.runners[id]; ok {
		return r.Alloc().AllocModifyIndex
	}
	return 0
}

// fetch fetches allocations and applies them. One that comes back missing or older than it was listed
// makes the pull incomplete.
func (c *Client) fetch(ctx context.Context, ids []string, wanted map[string]uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &structs.AllocsGetRequest{AllocIDs: ids, NodeID: c.id.nodeID, SecretID: c.id.secretID}
	req.Region, req.Namespace = c.config.Get().Region, structs.AllNamespaces
	resp, err := rpc.Call(ctx, c.servers, structs.AllocsGet, req)
	if err != nil {
		return err
	}
	missing := len(ids)
	for _, alloc := range resp.Allocs {
		if alloc.AllocModifyIndex < wanted[alloc.ID] {
			continue
		}
		if err := c.apply(alloc); err != nil {
			return err
		}
		missing--
	}
	if missing > 0 {
		return structs.Errorf(structs.KindUnavailable, "%d of %d allocations came back missing or out of date", missing, len(ids))
	}
	return nil
}

// apply takes over one allocation. One that cannot be run is told to the servers as failed; one that has
// ended, and is not here, is of no concern. If there is something of it all the same, what it runs is found
// and ended: to the servers it may have been lost.
func (c *Client) apply(alloc *structs.Allocation) error {
	if r := c.runner(alloc.ID); r != nil {
		return r.Update(alloc)
	}
	left := alloc.ClientTerminal() && allocrunner.Leftover(c.runnerDeps(), alloc.ID)
	if alloc.ClientTerminal() && !left {
		c.ignore(alloc, endedAs(alloc))
		return nil
	}
	if ended := c.endedHere(alloc.ID); ended != nil && !left {
		c.ignore(alloc, ended)
		c.updates.put(ended)
		return nil
	}
	r, err := allocrunner.New(c.runnerDeps(), alloc)
	if structs.IsKind(err, structs.KindInvalid) {
		c.logger.Error("an allocation cannot be run", "alloc_id", alloc.ID, "error", err)
		failed := &structs.AllocClientUpdate{
			ID: alloc.ID, ClientStatus: structs.AllocFailed, ClientDescription: err.Error(),
		}
		c.ignore(alloc, failed)
		c.updates.put(failed)
		return nil
	}
	if err != nil {
		return err
	}
	if left {
		r.Stop("it has ended for the servers")
	}
	c.start(r)
	return nil
}

func (c *Client) ignore(alloc *structs.Allocation, ended *structs.AllocClientUpdate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ignored[alloc.ID] = ignored{alloc.AllocModifyIndex, ended}
}

// endedHere is what became of an allocation that is ignored, nil of any other.
func (c *Client) endedHere(id string) *structs.AllocClientUpdate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ignored[id].ended
}

// collect destroys the directories of allocations that have ended, have let go of everything and have
// been acknowledged as ended, the oldest first, until no more are kept than configured.
func (c *Client) collect() {
	type candidate struct {
		r     *allocrunner.Runner
		ended time.Time
	}
	var ended []candidate
	for _, r := range c.allRunners() {
		select {
		case <-r.Unwound():
		default:
			continue
		}
		if u := r.ClientState(); c.updates.acknowledged(u) {
			ended = append(ended, candidate{r, lastFinish(u)})
		}
	}
	slices.SortFunc(ended, func(a, b candidate) int { return a.ended.Compare(b.ended) })
	for i := range max(0, len(ended)-c.config.Get().GCMaxAllocs) {
		r := ended[i].r
		c.ignore(r.Alloc(), r.ClientState())
		r.Destroy()
	}
}

func lastFinish(u *structs.AllocClientUpdate) time.Time {
	var t time.Time
	for _, s := range u.TaskStates {
		if s.FinishedAt.After(t) {
			t = s.FinishedAt
		}
	}
	return t
}
