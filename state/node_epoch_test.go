package state_test

import (
	"testing"

	"berth/state"
	"berth/structs"
)

func (w *fixture) epoch(node string) uint64 {
	return state.Node(w.s.Read(), node).Epoch
}

func TestEpoch_ChangesWhenTheNodeComesBack(t *testing.T) {
	w := newFixture(t)
	w.node("n1")
	first := w.index
	changed := aNode("n1")
	changed.Meta = map[string]string{"rack": "r2"}
	changed.Epoch = 4711 // a node cannot choose it
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: changed, WriteOptions: w.now()})
	w.status(structs.NodeInit, "n1")
	w.status(structs.NodeReady, "n1")
	w.status(structs.NodeDown, "n1")
	if got := w.epoch("n1"); got != first {
		t.Errorf("the epoch is %d before it comes back, want %d", got, first)
	}

	w.status(structs.NodeReady, "n1")
	if got := w.epoch("n1"); got != w.index {
		t.Errorf("the epoch is %d after a heartbeat brought it back, want %d", got, w.index)
	}
	w.status(structs.NodeDown, "n1")
	w.node("n1")
	if got := w.epoch("n1"); got != w.index {
		t.Errorf("the epoch is %d after it registered again, want %d", got, w.index)
	}
}
