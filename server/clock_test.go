package server

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/server/clock"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs/admin"
)

// keptCluster is a state with the cluster time, and wall clocks that a test sets.
type keptCluster struct {
	store *state.Store
	fsm   *fsm.FSM
	index uint64
	ahead atomic.Int64 // of the wall clock of the leader
	agree atomic.Bool
}

func (c *keptCluster) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	c.index++
	return c.index, c.fsm.Apply(&raft.Log{Index: c.index, Type: raft.LogCommand, Data: entry}), nil
}

// lead begins a leadership.
func (c *keptCluster) lead() (now *clock.Cluster, stop func()) {
	now = clock.New(boottime.Monotonic(), func() *admin.ClusterTime {
		return clustertime.Of(c.store.Read())
	})
	k := keeper{
		Store:      c.store,
		Clock:      now,
		Proposer:   c,
		Wall:       func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) },
		Agree:      func(context.Context) bool { return c.agree.Load() },
		Quarantine: time.Hour,
		Logger:     hclog.NewNullLogger(),
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.begin(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); k.run(ctx) }()
	return now, func() { cancel(); <-ended }
}

func TestKeeper_FollowsClocksThatWereSetAfterTheQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New()
		c := &keptCluster{store: store, fsm: fsm.New(store), index: 100}
		c.agree.Store(true)
		_, stop := c.lead()
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(time.Hour)
		stop()
		c.ahead.Store(int64(30 * time.Hour))
		cluster, stop := c.lead() // one whose clock is wrong
		defer func() { stop() }()
		want := func(when string, ahead time.Duration) {
			t.Helper()
			if off := cluster.Now().Sub(time.Now()) - ahead; off.Abs() > time.Minute {
				t.Errorf("%s the cluster time is %s ahead, want %s", when, off+ahead, ahead)
			}
		}
		want("at the beginning", 0)
		pass(50 * time.Minute)
		want("in the quarantine", 0)
		stop()
		cluster, stop = c.lead() // the next leader with that clock continues the quarantine
		pass(5 * time.Minute)
		want("of the next leader", 0)
		c.agree.Store(false)
		pass(time.Minute)
		c.agree.Store(true)
		pass(50 * time.Minute)
		want("after servers that did not agree", 0)
		pass(11 * time.Minute)
		want("after the quarantine", 30*time.Hour)

		c.ahead.Store(0)
		pass(3 * time.Hour)
		want("when the clocks are set back", 30*time.Hour-18*time.Minute)
	})
}
