package allocwatcher

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// cutServers do not answer the first calls. The cut ends during the last of these.
type cutServers struct {
	*node
	back backoff.Recovery
	at   []time.Time
}

const callsInCut = 8

func (s *cutServers) Call(ctx context.Context, method string, req, resp any) error {
	s.at = append(s.at, time.Now())
	if len(s.at) == callsInCut {
		s.back.Announce()
	}
	if len(s.at) <= callsInCut {
		return structs.Unavailablef("no route")
	}
	return s.node.Call(ctx, method, req, resp)
}

func TestUp_AsksAgainAtTheEndOfACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.set("r", "there", structs.AllocComplete)
		h, env := n.hook(&structs.Allocation{ID: "a", PreviousAllocation: "r"})
		s := &cutServers{node: n}
		w := h.(*watcher)
		w.Servers = s
		w.ServersBack = &s.back
		if err := h.Up(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		before := s.at[callsInCut-1].Sub(s.at[callsInCut-2])
		after := s.at[callsInCut].Sub(s.at[callsInCut-1])
		if before != retryPause.Max || after != 0 {
			t.Errorf("the pause is %s before the end of the cut, and %s after it", before, after)
		}
	})
}
