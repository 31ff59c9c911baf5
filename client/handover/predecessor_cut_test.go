package handover

import (
	"context"
	"testing"
	"testing/synctest"

	"berth/internal/backoff/cuttest"
	"berth/structs"
)

// cutServers do not answer during a cut.
type cutServers struct {
	*otherNodes
	cuttest.Cut
}

func (s *cutServers) Call(ctx context.Context, method string, req, resp any) error {
	if err := s.Attempt(); err != nil {
		return err
	}
	return s.otherNodes.Call(ctx, method, req, resp)
}

func TestUp_AsksAgainAtTheEndOfACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newOtherNodes()
		n.set("r", "there", structs.AllocComplete)
		h, env := n.hook(&structs.Allocation{ID: "a", PreviousAllocation: "r"})
		s := &cutServers{otherNodes: n}
		w := h.(*predecessors)
		w.Servers = s
		w.ServersBack = &s.Back
		if err := h.Up(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		before, first, second := s.Pauses()
		if before != retryPause.Max || first != 0 || second != retryPause.Min {
			t.Errorf("the pause is %s before the end of the cut, then %s and %s", before, first, second)
		}
	})
}
