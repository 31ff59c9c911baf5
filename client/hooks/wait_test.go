package hooks

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

// heard is what a wait has told.
type heard struct {
	Wait
	progress []string
	events   []*structs.TaskEvent
}

func newHeard() *heard {
	h := &heard{}
	h.AllocID = "a1"
	h.Task = "web"
	h.For = "its key"
	h.Progress = func(_, reason string) { h.progress = append(h.progress, reason) }
	h.Emit = func(e *structs.TaskEvent) { h.events = append(h.events, e) }
	return h
}

func (h *heard) check(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.progress, want) {
		t.Errorf("the allocation tells %q, want %q", h.progress, want)
	}
}

func TestWait_TellsEachReasonOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeard()
		h.Begin()
		for _, reason := range []string{"no leader", "no leader", "no disk"} {
			h.Tell(reason)
			time.Sleep(QuietTime + 1)
		}
		h.End()
		h.Tell("too late")
		time.Sleep(QuietTime + 1)
		h.check(t, "task web waits for its key: no leader", "task web waits for its key: no disk", "")
		if len(h.events) != 2 {
			t.Fatalf("%d events, want 2", len(h.events))
		}
		for i, e := range h.events {
			// With the same key an event takes the place of the one before it.
			same := e.Details[ProgressKey] == "its key"
			if e.Type != structs.TaskEventHookMessage || e.Message != h.progress[i] || !same {
				t.Errorf("event %d is %+v", i, e)
			}
		}
	})
}

func TestWait_TellsOfItselfAfterTheQuietTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeard()
		h.Begin()
		time.Sleep(QuietTime - 1)
		synctest.Wait()
		h.check(t)
		time.Sleep(1)
		synctest.Wait()
		h.End()
		h.check(t, "task web waits for its key: there is no answer yet", "")
	})
}

// A wait without a reason changes no text of another task.
func TestWait_ThatHasToldNothingEndsWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeard()
		h.Begin()
		h.End()
		time.Sleep(QuietTime + 1)
		h.check(t)
	})
}
