package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/fsm"
	"berth/server"
	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

// registrar makes many callers propose one node after the other, and records the outcomes.
type registrar struct {
	s       *cluster.Server
	mu      sync.Mutex
	results map[string]error // by node
	done    atomic.Int64
}

func (r *registrar) register(ctx context.Context, id string) error {
	_, err := fsm.Propose(ctx, r.s.Current(), fsm.NodeRegister,
		&structs.NodeRegisterRequest{Node: &structs.Node{ID: id, SecretID: id}})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[id] = err
	r.done.Add(1)
	return err
}

// run ends when each caller has made its proposals or has received an error.
func (r *registrar) run(ctx context.Context, callers, each int) {
	var wg sync.WaitGroup
	for who := range callers {
		wg.Go(func() {
			for n := range each {
				if r.register(ctx, fmt.Sprintf("node-%d-%d", who, n)) != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

// rareElections gives servers a timeout that a busy machine does not exceed: only a cut causes an election.
func rareElections(cfg *server.Config) { cfg.RaftTimeout = 5 * time.Second }

// TestBatches_ManyWritesShareFewEntries: proposals that arrive while an entry is in flight share the next
// one. Each has its own result, and all servers apply them alike.
func TestBatches_ManyWritesShareFewEntries(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	r := &registrar{
		s:       c.Leader(),
		results: map[string]error{},
	}
	before := r.s.Store().Index()
	const callers, each = 64, 20
	r.run(t.Context(), callers, each)
	entries := r.s.Store().Index() - before
	for id, err := range r.results {
		if err != nil || state.Node(r.s.Store().Read(), id) == nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if len(r.results) != callers*each || entries > callers*each/2 {
		t.Errorf("%d writes made %d entries", len(r.results), entries)
	}
	t.Logf("%d writes made %d entries", len(r.results), entries)
	c.CheckEqualStates()
}

// TestBatches_ReportNoFalseResultAfterLossOfLeadership: no caller of a shared entry learns that it was not
// written when it was, and confirmed writes stay. The leader leads for a while after the cut. So at least one
// proposal is in flight when its leadership ends.
func TestBatches_ReportNoFalseResultAfterLossOfLeadership(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	leader := c.Leader()
	r := &registrar{
		s:       leader,
		results: map[string]error{},
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		r.run(t.Context(), 64, 1<<30)
	})
	c.Await("many have been answered", func() bool {
		return r.done.Load() > 500
	})
	others := c.Others(leader)
	c.Net.Cut(leader.Name, cluster.Names(others)...)
	wg.Wait()
	c.Leader(others...)
	c.Net.Heal()
	c.CheckEqualStates()
	tx := c.Leader().Store().Read()
	failed := map[structs.Kind]int{}
	for id, err := range r.results {
		kind := structs.KindOf(err)
		there := state.Node(tx, id) != nil
		if err != nil {
			failed[kind]++
		}
		switch {
		case err == nil && !there, kind == structs.KindUnavailable && there,
			err != nil && kind != structs.KindUnavailable && kind != structs.KindTimeout:
			t.Errorf("the proposal for %s returned %v; the row exists: %v", id, err, there)
		}
	}
	if failed[structs.KindTimeout] == 0 ||
		failed[structs.KindTimeout]+failed[structs.KindUnavailable] != 64 {
		t.Errorf("errors by kind: %v; want one for each of 64 callers", failed)
	}
}
