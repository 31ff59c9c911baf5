package state

import (
	"testing"

	"berth/state/lease"
	"berth/structs"
	"berth/structs/nodeloss"
)

// countEpochs records the bound of leases: from then on the servers count epochs.
func (w *fixture) countEpochs() {
	w.t.Helper()
	do(w, lease.LeaseBoundSet, &nodeloss.LeaseBoundRequest{Longest: 1})
}

func (w *fixture) epoch(node string) uint64 {
	return Node(w.s.Read(), node).Epoch
}

func TestEpoch_ChangesWhenTheNodeComesBack(t *testing.T) {
	w := newFixture(t)
	w.countEpochs()
	w.node("n1")
	first := w.index
	changed := aNode("n1")
	changed.Meta = map[string]string{"rack": "r2"}
	changed.Epoch = 4711 // a node cannot choose it
	do(w, NodeRegister, &structs.NodeRegisterRequest{Node: changed, WriteOptions: w.now()})
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

// A server of level 1 applies the same entries and stores no epoch.
func TestEpoch_IsNotCountedBesideServersThatKnowNone(t *testing.T) {
	w := newFixture(t)
	w.node("n1")
	w.status(structs.NodeDown, "n1")
	w.status(structs.NodeReady, "n1")
	if got := w.epoch("n1"); got != 0 {
		t.Errorf("the epoch is %d before an entry needed level 2", got)
	}
}
