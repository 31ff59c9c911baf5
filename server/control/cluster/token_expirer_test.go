package cluster_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/server/clock"
	loops "berth/server/control/cluster"
	"berth/server/control/loop"

	"berth/state"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// tokenWorld is a leader with tokens.
type tokenWorld struct {
	t *testing.T
	*oneserver.Log
	begun time.Time
}

func newTokenWorld(t *testing.T) *tokenWorld {
	return &tokenWorld{t, oneserver.NewLog(), time.Now()}
}

func (w *tokenWorld) put(accessor string, life time.Duration) {
	w.t.Helper()
	change := &access.TokenChange{Now: w.begun.UnixNano(), Token: &access.Token{
		AccessorID: accessor,
		SecretHash: access.HashSecret(accessor),
		Type:       access.TypeManagement,
		ExpireTime: w.begun.Add(life).UnixNano(),
	}}
	oneserver.Put(w.t, w, fsm.ACLTokenPut, change)
}

func (w *tokenWorld) wantTokens(want int) {
	w.t.Helper()
	synctest.Wait()
	got := 0
	for range state.Tokens(w.Store.Read()) {
		got++
	}
	if got != want {
		w.t.Errorf("after %s there are %d tokens, want %d", time.Since(w.begun), got, want)
	}
}

// run runs the expirer by a cluster time. stop ends it and waits.
func (w *tokenWorld) run(at *clock.Cluster) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	expirer := loops.TokenExpirer{
		Common: loop.Common{
			Store:    w.Store,
			Proposer: w,
			Clock:    at,
			Logger:   hclog.NewNullLogger(),
		},
		Now: time.Now,
	}
	running.Go(func() { expirer.Run(ctx) })
	synctest.Wait()
	return func() {
		cancel()
		running.Wait()
	}
}

// A wall clock that is ahead deletes no row of a token. Requests with it are denied by that clock.
func TestExpirer_KeepsTokensByAWallClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTokenWorld(t)
		row := &cluster.ClusterTime{Time: w.begun.Add(-30 * time.Hour).UnixNano()}
		row.ModifyIndex = 1
		at := clock.New(boottime.Monotonic(), func() *cluster.ClusterTime { return row })
		at.Look()
		w.put("soon", time.Hour)
		defer w.run(at)()
		time.Sleep(30 * time.Hour)
		w.wantTokens(1)
		time.Sleep(time.Hour + time.Minute)
		w.wantTokens(0)
	})
}

// A token is deleted at its end and not before, also one that is made while the loop waits for a later end,
// and after an entry that could not be written.
func TestExpirer_DeletesTokensAtTheirEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTokenWorld(t)
		w.put("late", 2*time.Hour)
		defer w.run(nil)()
		w.put("soon", time.Hour)

		time.Sleep(time.Hour - time.Second)
		w.wantTokens(2)
		w.Fail(structs.Unavailablef("no quorum"))
		time.Sleep(2 * time.Second)
		w.wantTokens(2)
		w.Fail(nil)
		time.Sleep(2 * time.Second)
		w.wantTokens(1)
		time.Sleep(time.Hour)
		w.wantTokens(0)
	})
}
