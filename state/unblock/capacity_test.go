package unblock_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"berth/state"
	"berth/state/statetest"
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
	w := statetest.New(t)
	if got := freedNodes(w.Store.Read(), 0); got != "anywhere" {
		t.Errorf("in an empty state: got %q, want anywhere", got)
	}
	w.Node("n1")
	first := w.Index
	w.Node("n2")
	w.Alloc("a1", "j", "n2")
	before := w.Index
	if got := freedNodes(w.Store.Read(), first-1); got != "n1 n2" {
		t.Errorf("after two nodes registered: got %q, want n1 n2", got)
	}
	if got := freedNodes(w.Store.Read(), first-2); got != "anywhere" {
		t.Errorf("before the first record: got %q, want anywhere", got)
	}
	w.Status(structs.NodeDown, "n1")
	w.Client("n2", "a1", structs.AllocRunning)
	if got := freedNodes(w.Store.Read(), before); got != "" {
		t.Errorf("while all run: got %q, want none", got)
	}
	w.Client("n2", "a1", structs.AllocComplete)
	if got := freedNodes(w.Store.Read(), before); got != "n2" {
		t.Errorf("after an allocation ended: got %q, want n2", got)
	}
	w.Status(structs.NodeReady, "n1")
	if got := freedNodes(w.Store.Read(), before); got != "n2 n1" {
		t.Errorf("after a node came back: got %q, want n2 n1", got)
	}

	w.Index++
	at := w.Index
	if err := w.Store.Write(at, func(tx *state.WriteTx) error {
		unblock.Capacity(tx, "n2")
		unblock.Key(tx, structs.WakeCapacity) // the event names no node
		unblock.Capacity(tx, "n1")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := freedNodes(w.Store.Read(), before); got != "anywhere" {
		t.Errorf("after an event without a node: got %q, want anywhere", got)
	}
	w.Status(structs.NodeDown, "n1")
	w.Status(structs.NodeReady, "n1")
	if got := freedNodes(w.Store.Read(), at); got != "n1" {
		t.Errorf("after the event without a node: got %q, want n1", got)
	}
	before = at

	var saved bytes.Buffer
	if err := w.Store.Save(&saved); err != nil {
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
		w.Node(fmt.Sprint("m", i))
	}
	if got := freedNodes(w.Store.Read(), before); got != "anywhere" {
		t.Errorf("after more nodes than are recorded: got %q, want anywhere", got)
	}
	newest := fmt.Sprintf("m%d m%d", unblock.KeptFreed-2, unblock.KeptFreed-1)
	if got := freedNodes(w.Store.Read(), w.Index-2); got != newest {
		t.Errorf("since the newest two: got %q", got)
	}
}
