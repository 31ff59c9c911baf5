package control

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

// fakeConsul notes the revoked tokens. The first calls fail.
type fakeConsul struct {
	mu       sync.Mutex
	failures int
	hangs    bool // no call ends before its context
	revoked  []string
	failed   []time.Duration // since the first failure
	first    time.Time
}

func (f *fakeConsul) RevokeToken(ctx context.Context, accessorID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.failures > 0 {
		f.failures--
		if f.first.IsZero() {
			f.first = time.Now()
		}
		f.failed = append(f.failed, time.Since(f.first))
		return structs.Unavailablef("no answer")
	}
	f.revoked = append(f.revoked, accessorID)
	return nil
}

// tokenEnv has an allocation for each token, which has the ID of the allocation.
func tokenEnv(t *testing.T, allocs ...string) (*testEnv, *fakeConsul) {
	t.Helper()
	w := newTestEnv(t)
	f := &fakeConsul{}
	w.Consul = f
	w.addNode("n1", false)
	for _, id := range allocs {
		w.addAlloc(id, "n1")
		put(w, fsm.SITokensRegister, &access.SITokenAccessors{
			Accessors: []*access.SITokenAccessor{{AllocID: id, TaskName: "t", AccessorID: id, NodeID: "n1"}},
		})
	}
	return w, f
}

// revokeFor runs the loop of one leader for a while.
func (w *testEnv) revokeFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	defer w.runLoop("si_tokens")()
	<-ctx.Done()
}

func (w *testEnv) tokens() (left []string) {
	for _, id := range []string{"a1", "a2", "a3"} {
		for t := range trust.SITokensOf(w.Store.Read(), id) {
			left = append(left, t.AccessorID)
		}
	}
	return left
}

func TestSITokens_AreRevokedWhenTheirAllocationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := tokenEnv(t, "a1", "a2", "a3")
		w.endAlloc("a2", "n1") // before there is a leader
		go w.revokeFor(time.Hour)
		synctest.Wait()
		w.endAlloc("a1", "n1")
		synctest.Wait()
		slices.Sort(f.revoked)
		if !slices.Equal(f.revoked, []string{"a1", "a2"}) || !slices.Equal(w.tokens(), []string{"a3"}) {
			t.Errorf("revoked %v, left %v", f.revoked, w.tokens())
		}
		time.Sleep(time.Hour)
	})
}

// A failed revocation is repeated after growing delays, and by the next leader.
func TestSITokens_AreRevokedOnceConsulIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := tokenEnv(t, "a1")
		w.endAlloc("a1", "n1")
		f.hangs = true
		w.revokeFor(time.Minute) // a leader that loses its leadership
		if !slices.Equal(w.tokens(), []string{"a1"}) {
			t.Fatalf("the rows are %v", w.tokens())
		}
		f.hangs = false
		f.failures = 4
		w.revokeFor(time.Minute)
		if !slices.Equal(f.revoked, []string{"a1"}) || len(w.tokens()) > 0 {
			t.Errorf("revoked %v, left %v", f.revoked, w.tokens())
		}
		for i := 2; i < len(f.failed); i++ {
			if f.failed[i]-f.failed[i-1] <= f.failed[i-1]-f.failed[i-2] {
				t.Errorf("the attempts are at %v", f.failed)
			}
		}
	})
}

// A token that no task has got is revoked after a while, because Consul may still be making it.
func TestSITokens_AreRevokedAfterAFailedDerivation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := tokenEnv(t, "a1")
		put(w, fsm.SITokensGiveUp, &access.SITokenAccessors{
			Accessors:    []*access.SITokenAccessor{{AllocID: "a1", TaskName: "t", AccessorID: "a1"}},
			WriteOptions: w.stamp(""),
		})
		w.revokeFor(access.SITokenSettle - time.Second)
		if len(f.revoked) > 0 {
			t.Error("the token is revoked too early")
		}
		w.revokeFor(2 * time.Second)
		if !slices.Equal(f.revoked, []string{"a1"}) || len(w.tokens()) > 0 {
			t.Errorf("revoked %v, left %v", f.revoked, w.tokens())
		}
	})
}

func TestSITokens_StayWithoutConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := tokenEnv(t, "a1")
		w.Consul = nil
		w.endAlloc("a1", "n1")
		w.revokeFor(time.Hour)
		if !slices.Equal(w.tokens(), []string{"a1"}) {
			t.Errorf("the rows are %v", w.tokens())
		}
	})
}
