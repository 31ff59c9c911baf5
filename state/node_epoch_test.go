package state_test

import (
	"testing"

	"berth/state"
	"berth/structs"
)

func TestEpoch_ChangesWhenTheNodeComesBack(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	first := w.Index
	changed := aNode("n1")
	changed.Meta = map[string]string{"rack": "r2"}
	changed.Epoch = 4711 // a node cannot choose it
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: changed, WriteOptions: w.Now()})
	w.Status(structs.NodeInit, "n1")
	w.Status(structs.NodeReady, "n1")
	w.Status(structs.NodeDown, "n1")
	if got := w.Epoch("n1"); got != first {
		t.Errorf("the epoch is %d before it comes back, want %d", got, first)
	}

	w.Status(structs.NodeReady, "n1")
	if got := w.Epoch("n1"); got != w.Index {
		t.Errorf("the epoch is %d after a heartbeat brought it back, want %d", got, w.Index)
	}
	w.Status(structs.NodeDown, "n1")
	w.Node("n1")
	if got := w.Epoch("n1"); got != w.Index {
		t.Errorf("the epoch is %d after it registered again, want %d", got, w.Index)
	}
}
