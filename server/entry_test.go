package server

import (
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/structs"
)

// deregistration is an entry of the given size: it names an unknown node.
func deregistration(t *testing.T, size int) []byte {
	t.Helper()
	of := func(n int) []byte {
		req := &structs.NodeDeregisterRequest{NodeIDs: []string{strings.Repeat("x", n)}}
		entry, err := fsm.NodeDeregister.Encode(req)
		if err != nil {
			t.Fatal(err)
		}
		return entry
	}
	entry := of(size - (len(of(size)) - size))
	if len(entry) != size {
		t.Fatalf("the entry has %d bytes, want %d", len(entry), size)
	}
	return entry
}

// TestPropose_RejectsAnUnreadableEntry: Raft does not receive it. The server continues, and
// starts again.
func TestPropose_RejectsAnUnreadableEntry(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	s := run(t, cfg)
	before, err := s.consensus.files.Log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{structs.MaxEntry + 1, 65 << 20} {
		_, _, err := s.Propose(t.Context(), deregistration(t, size))
		if !structs.IsKind(err, structs.KindInvalid) ||
			!strings.Contains(err.Error(), "NodeDeregister would be a log entry of ") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	after, err := s.consensus.files.Log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for i := before + 1; i <= after; i++ { // of the leader's loops
		var l raft.Log
		err := s.consensus.files.Log.GetLog(i, &l)
		if err != nil || len(l.Data) > structs.MaxEntry {
			t.Errorf("the log has an entry of %d bytes, %v", len(l.Data), err)
		}
	}
	if _, _, err := s.Propose(t.Context(), deregistration(t, structs.MaxEntry)); err != nil {
		t.Errorf("an entry at the bound: %v", err)
	}
	s.register("one")
	s.stop()

	s = run(t, cfg)
	if !s.has("one") {
		t.Error("job is lost after a restart")
	}
	s.register("two")
}
