package membership

import (
	"context"
	"errors"
	"testing"
)

func nothing(context.Context) error { return nil }

func TestReturn_EndsWhenNothingIsLeft(t *testing.T) {
	r := NewReturn()
	r.Pulled(7)
	if r.Note(7, false) || r.Pending() || r.CleanFor() != 0 {
		t.Error("a node that was not lost returns")
	}
	if !r.Note(9, true) || r.Note(9, true) || !r.Pending() {
		t.Error("the return does not begin once")
	}
	if err := r.check(t.Context(), nothing); err == nil || r.CleanFor() != 0 {
		t.Errorf("the node is clean by the list of allocations of an earlier epoch: %v", err)
	}
	r.Pulled(9)
	left := errors.New("a mount")
	err := r.check(t.Context(), func(context.Context) error { return left })
	if !errors.Is(err, left) || r.CleanFor() != 0 {
		t.Errorf("the node is clean for epoch %d with a mount: %v", r.CleanFor(), err)
	}
	if err := r.check(t.Context(), nothing); err != nil || r.CleanFor() != 9 {
		t.Errorf("the node is clean for epoch %d, want 9: %v", r.CleanFor(), err)
	}
	if !r.Note(11, true) || r.CleanFor() != 0 {
		t.Error("the node is clean for an epoch that began since")
	}
	if r.Note(11, false) || r.Pending() {
		t.Error("the end of a return begins another one")
	}
}

// A node may be lost again while it looks.
func TestReturn_IsCleanForTheEpochInWhichItLooked(t *testing.T) {
	r := NewReturn()
	r.Note(9, true)
	r.Pulled(9)
	err := r.check(t.Context(), func(context.Context) error {
		r.Note(11, true)
		return nil
	})
	if err != nil || r.CleanFor() != 0 {
		t.Errorf("the node is clean for epoch %d: %v", r.CleanFor(), err)
	}
}
