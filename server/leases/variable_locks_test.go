package leases

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
	"berth/test/oneserver"
)

const ttl, delay = 15 * time.Second, 30 * time.Second

// world is a cluster of one server in virtual time.
type world struct {
	*VariableLocks
	t   *testing.T
	log *oneserver.Log
}

// inWorld runs a test in virtual time, with a variable that is locked.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, log: oneserver.NewLog()}
		w.VariableLocks = NewVariableLocks(LockConfig{
			Store:    w.log.Store,
			Proposer: w.log,
			Logger:   hclog.NewNullLogger(),
			Clock:    boottime.Monotonic(),
		})
		w.acquire("one")
		test(t, w)
	})
}

func (w *world) acquire(id string) {
	w.t.Helper()
	_, err := fsm.Propose(w.t.Context(), w.log, fsm.VariableLock, &access.VariableChange{
		Namespace: "default",
		Path:      "a",
		Lock:      &access.VariableLock{ID: id, TTL: ttl, LockDelay: delay},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// lead makes the server lead until the function is called.
func (w *world) lead() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { w.Run(ctx) })
	synctest.Wait()
	return func() {
		cancel()
		loop.Wait()
	}
}

func (w *world) row() *access.Variable { return state.Variable(w.Store.Read(), "default", "a") }

// check compares the row after some time: held, expired, or free.
func (w *world) check(after time.Duration, want string) {
	w.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	got := "held"
	switch v := w.row(); {
	case v.Lock == nil:
		got = "free"
	case v.LockExpired:
		got = "expired"
	}
	if got != want {
		w.t.Errorf("after %s the lock is %s, want %s", after, got, want)
	}
}

func TestRun_EndsALockThatIsNotRenewed_ThenItsDelay(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		defer w.lead()()
		w.check(ttl-time.Second, "held")
		w.check(2*time.Second, "expired")
		w.check(delay-2*time.Second, "expired")
		w.check(2*time.Second, "free")
		w.acquire("two")
		w.check(ttl-time.Second, "held")
		w.check(2*time.Second, "expired")
	})
}

func TestRenew_KeepsTheLock_AndWritesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.lead()()
		before := w.log.Len()
		for range 10 {
			w.check(10*time.Second, "held")
			if err := w.Renew(w.row()); err != nil {
				t.Fatal(err)
			}
		}
		if now := w.log.Len(); now != before {
			t.Errorf("%d entries", now-before)
		}
		w.check(ttl-time.Second, "held")
		w.check(2*time.Second, "expired")
		if err := w.Renew(w.row()); !structs.IsKind(err, structs.KindConflict) {
			t.Errorf("the lock has ended: got %v", err)
		}
	})
}

// A lock whose end has come is renewed by nobody, also before the log has its end.
func TestRenew_RejectsALockWhoseEndHasCome(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.lead()()
		w.log.Fail(errors.New("no quorum"))
		w.check(ttl+time.Second, "held")
		if err := w.Renew(w.row()); !structs.IsKind(err, structs.KindConflict) {
			t.Errorf("got %v", err)
		}
		w.log.Fail(nil)
		w.check(2*time.Second, "expired")
	})
}

func TestRun_ANewLeaderCountsTheTTLAnew(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop := w.lead()
		w.check(10*time.Second, "held")
		stop()
		if err := w.Renew(w.row()); !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("a server that does not lead: got %v", err)
		}
		w.check(time.Minute, "held")
		stop = w.lead()
		w.check(ttl-time.Second, "held")
		w.check(2*time.Second, "expired")
		w.check(delay/2, "expired")
		stop()
		defer w.lead()()
		w.check(delay-time.Second, "expired")
		w.check(2*time.Second, "free")
	})
}

func TestRun_ForgetsAReleasedLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.lead()()
		w.check(10*time.Second, "held")
		_, err := fsm.Propose(t.Context(), w.log, fsm.VariableUnlock, &access.VariableChange{
			Namespace: "default",
			Path:      "a",
			Lock:      &access.VariableLock{ID: "one"},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.acquire("two")
		w.check(ttl-time.Second, "held")
		w.check(2*time.Second, "expired")
	})
}
