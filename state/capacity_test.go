package state_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"berth/state"
	"berth/state/unblock"
	"berth/structs"
)

// freedNodes renders the nodes on which capacity was freed after an index.
func freedNodes(tx *state.ReadTx, index uint64) string {
	nodes, known := unblock.NodesFreedSince(tx, index)
	if !known {
		return "anywhere"
	}
	return strings.Join(nodes, " ")
}

func TestFreedCapacity_IsRecordedPerNode(t *testing.T) {
	w := newFixture(t)
	if got := freedNodes(w.s.Read(), 0); got != "anywhere" {
		t.Errorf("in an empty state: got %q, want anywhere", got)
	}
	w.node("n1")
	first := w.index
	w.node("n2")
	w.alloc("a1", "j", "n2")
	before := w.index
	if got := freedNodes(w.s.Read(), first-1); got != "n1 n2" {
		t.Errorf("after two nodes registered: got %q, want n1 n2", got)
	}
	if got := freedNodes(w.s.Read(), first-2); got != "anywhere" {
		t.Errorf("before the first record: got %q, want anywhere", got)
	}
	w.status(structs.NodeDown, "n1")
	w.client("n2", "a1", structs.AllocRunning)
	if got := freedNodes(w.s.Read(), before); got != "" {
		t.Errorf("while all run: got %q, want none", got)
	}
	w.client("n2", "a1", structs.AllocComplete)
	if got := freedNodes(w.s.Read(), before); got != "n2" {
		t.Errorf("after an allocation ended: got %q, want n2", got)
	}
	w.status(structs.NodeReady, "n1")
	if got := freedNodes(w.s.Read(), before); got != "n2 n1" {
		t.Errorf("after a node came back: got %q, want n2 n1", got)
	}

	w.index++
	at := w.index
	if err := w.s.Write(at, func(tx *state.WriteTx) error {
		unblock.Capacity(tx, "n2")
		unblock.Key(tx, structs.WakeCapacity) // the event names no node
		unblock.Capacity(tx, "n1")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := freedNodes(w.s.Read(), before); got != "anywhere" {
		t.Errorf("after an event without a node: got %q, want anywhere", got)
	}
	w.status(structs.NodeDown, "n1")
	w.status(structs.NodeReady, "n1")
	if got := freedNodes(w.s.Read(), at); got != "n1" {
		t.Errorf("after the event without a node: got %q, want n1", got)
	}
	before = at

	var saved bytes.Buffer
	if err := w.s.Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded := state.New()
	if err := loaded.Load(&saved); err != nil {
		t.Fatal(err)
	}
	if got := freedNodes(loaded.Read(), before); got != "n1" {
		t.Errorf("after the load: got %q, want n1", got)
	}

	for i := range unblock.KeptFreed {
		w.node(fmt.Sprint("m", i))
	}
	if got := freedNodes(w.s.Read(), before); got != "anywhere" {
		t.Errorf("after more nodes than are recorded: got %q, want anywhere", got)
	}
	newest := fmt.Sprintf("m%d m%d", unblock.KeptFreed-2, unblock.KeptFreed-1)
	if got := freedNodes(w.s.Read(), w.index-2); got != newest {
		t.Errorf("since the newest two: got %q", got)
	}
}
