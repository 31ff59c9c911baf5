package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

// freedNodes renders the nodes on which capacity was freed after an index.
func freedNodes(tx *ReadTx, index uint64) string {
	nodes, known := NodesFreedSince(tx, index)
	if !known {
		return "anywhere"
	}
	return strings.Join(nodes, " ")
}

func TestFreedCapacity_IsRecordedPerNode(t *testing.T) {
	w := newWorld(t)
	if got := freedNodes(w.s.Read(), 0); got != "anywhere" {
		t.Errorf("of a state that remembers nothing: %q", got)
	}
	w.node("n1")
	first := w.index
	w.node("n2")
	w.alloc("a1", "j", "n2")
	before := w.index
	if got := freedNodes(w.s.Read(), first-1); got != "n1 n2" {
		t.Errorf("two nodes came: %q", got)
	}
	if got := freedNodes(w.s.Read(), first-2); got != "anywhere" {
		t.Errorf("before the first: %q", got)
	}
	w.status(structs.NodeDown, "n1")
	w.client("n2", "a1", structs.AllocRunning)
	if got := freedNodes(w.s.Read(), before); got != "" {
		t.Errorf("nothing has ended: %q", got)
	}
	w.client("n2", "a1", structs.AllocComplete)
	if got := freedNodes(w.s.Read(), before); got != "n2" {
		t.Errorf("an allocation has ended: %q", got)
	}
	w.status(structs.NodeReady, "n1")
	if got := freedNodes(w.s.Read(), before); got != "n2 n1" {
		t.Errorf("a node is back: %q", got)
	}

	w.index++
	at := w.index
	if err := w.s.Write(at, func(tx *WriteTx) error {
		unblockCapacity(tx, "n2")
		unblock(tx, structs.WakeCapacity) // the event names no node
		unblockCapacity(tx, "n1")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := freedNodes(w.s.Read(), before); got != "anywhere" {
		t.Errorf("it may be anywhere: %q", got)
	}
	w.status(structs.NodeDown, "n1")
	w.status(structs.NodeReady, "n1")
	if got := freedNodes(w.s.Read(), at); got != "n1" {
		t.Errorf("after what may be anywhere: %q", got)
	}
	before = at

	var saved bytes.Buffer
	if err := w.s.Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded := New()
	if err := loaded.Load(&saved); err != nil {
		t.Fatal(err)
	}
	if got := freedNodes(loaded.Read(), before); got != "n1" {
		t.Errorf("loaded: %q", got)
	}

	for i := range keptFreed {
		w.node(fmt.Sprint("m", i))
	}
	if got := freedNodes(w.s.Read(), before); got != "anywhere" {
		t.Errorf("more than is remembered: %q", got)
	}
	if got := freedNodes(w.s.Read(), w.index-2); got != fmt.Sprintf("m%d m%d", keptFreed-2, keptFreed-1) {
		t.Errorf("the newest: %q", got)
	}
}
