package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

// rooms renders the nodes on which capacity was freed after an index.
func rooms(tx *ReadTx, index uint64) string {
	nodes, known := RoomSince(tx, index)
	if !known {
		return "anywhere"
	}
	return strings.Join(nodes, " ")
}

func TestFreedCapacity_IsRecordedPerNode(t *testing.T) {
	w := newWorld(t)
	if got := rooms(w.s.Read(), 0); got != "anywhere" {
		t.Errorf("of a state that remembers nothing: %q", got)
	}
	w.node("n1")
	first := w.index
	w.node("n2")
	w.alloc("a1", "j", "n2")
	before := w.index
	if got := rooms(w.s.Read(), first-1); got != "n1 n2" {
		t.Errorf("two nodes came: %q", got)
	}
	if got := rooms(w.s.Read(), first-2); got != "anywhere" {
		t.Errorf("before the first: %q", got)
	}
	w.status(structs.NodeDown, "n1")
	w.client("n2", "a1", structs.AllocRunning)
	if got := rooms(w.s.Read(), before); got != "" {
		t.Errorf("nothing has ended: %q", got)
	}
	w.client("n2", "a1", structs.AllocComplete)
	if got := rooms(w.s.Read(), before); got != "n2" {
		t.Errorf("an allocation has ended: %q", got)
	}
	w.status(structs.NodeReady, "n1")
	if got := rooms(w.s.Read(), before); got != "n2 n1" {
		t.Errorf("a node is back: %q", got)
	}

	w.index++
	at := w.index
	if err := w.s.Write(at, func(tx *WriteTx) error {
		makeRoom(tx, "n2")
		wake(tx, structs.WakeCapacity) // the event names no node
		makeRoom(tx, "n1")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := rooms(w.s.Read(), before); got != "anywhere" {
		t.Errorf("it may be anywhere: %q", got)
	}
	w.status(structs.NodeDown, "n1")
	w.status(structs.NodeReady, "n1")
	if got := rooms(w.s.Read(), at); got != "n1" {
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
	if got := rooms(loaded.Read(), before); got != "n1" {
		t.Errorf("loaded: %q", got)
	}

	for i := range keptRooms {
		w.node(fmt.Sprint("m", i))
	}
	if got := rooms(w.s.Read(), before); got != "anywhere" {
		t.Errorf("more than is remembered: %q", got)
	}
	if got := rooms(w.s.Read(), w.index-2); got != fmt.Sprintf("m%d m%d", keptRooms-2, keptRooms-1) {
		t.Errorf("the newest: %q", got)
	}
}
