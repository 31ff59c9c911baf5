package tokenends_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/server/tokenends"
	"berth/state"
	"berth/state/acls"
	"berth/structs"
	"berth/structs/access"
)

// A token is deleted at its end and not before, also one that is made while the loop waits for a later end,
// and after an entry that could not be written.
func TestExpirer_DeletesTokensAtTheirEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New()
		raft := &endpointstest.FakeRaft{FSM: fsm.New(store), IsMe: true, Index: 100}
		begun := time.Now()
		put := func(accessor string, life time.Duration) {
			change := &access.TokenChange{Now: begun.UnixNano(), Token: &access.Token{
				AccessorID: accessor,
				SecretHash: access.HashSecret(accessor),
				Type:       access.TypeManagement,
				ExpireTime: begun.Add(life).UnixNano(),
			}}
			_, err := fsm.Propose(t.Context(), raft, fsm.ACLTokenPut, change)
			if err != nil {
				t.Fatal(err)
			}
		}
		wantTokens := func(want int) {
			t.Helper()
			synctest.Wait()
			got := 0
			for range acls.Tokens(store.Read()) {
				got++
			}
			if got != want {
				t.Errorf("after %s there are %d tokens, want %d", time.Since(begun), got, want)
			}
		}

		put("late", 2*time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { tokenends.New(store, raft, hclog.NewNullLogger()).Run(ctx) })
		synctest.Wait()
		put("soon", time.Hour)

		time.Sleep(time.Hour - time.Second)
		wantTokens(2)
		raft.Do(func() { raft.Proposed = structs.Unavailablef("no quorum") })
		time.Sleep(2 * time.Second)
		wantTokens(2)
		raft.Do(func() { raft.Proposed = nil })
		time.Sleep(2 * time.Second)
		wantTokens(1)
		time.Sleep(time.Hour)
		wantTokens(0)
		cancel()
		running.Wait()
	})
}
