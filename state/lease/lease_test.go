package lease_test

import (
	"slices"
	"testing"
	"time"

	"berth/state"
	"berth/state/lease"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/cluster"
)

// lengths returns the longer leases in the state.
func lengths(w *statetest.Fixture) (all []time.Duration) {
	for l := range lease.NodeLeases(w.Store.Read()) {
		all = append(all, l.Length)
	}
	return all
}

func TestNodeLeaseSet_NeverShortensALease(t *testing.T) {
	w := statetest.New(t)
	w.Node("n1")
	for _, length := range []time.Duration{time.Minute, time.Hour, time.Minute} {
		statetest.Do(w, lease.NodeLeaseSet, &cluster.NodeLeaseRequest{NodeID: "n1", Length: length})
	}
	if got := lengths(w); !slices.Equal(got, []time.Duration{time.Hour}) {
		t.Errorf("got %v, want one lease of an hour", got)
	}
	statetest.Do(w, lease.NodeLeaseSet, &cluster.NodeLeaseRequest{NodeID: "n1"})
	if got := lengths(w); len(got) > 0 {
		t.Errorf("got %v after the deletion", got)
	}
}

func TestNodeLeaseSet_NeedsALiveNode(t *testing.T) {
	w := statetest.New(t)
	w.Node("n1")
	w.Status(structs.NodeDown, "n1")
	down := &cluster.NodeLeaseRequest{NodeID: "n1", Length: time.Hour}
	statetest.WantKind(t, statetest.Try(w, lease.NodeLeaseSet, down), structs.KindPrecondition)
	unknown := &cluster.NodeLeaseRequest{NodeID: "n2", Length: time.Hour}
	statetest.WantKind(t, statetest.Try(w, lease.NodeLeaseSet, unknown), structs.KindNotFound)
}

func TestNodeDeregister_DeletesTheLongerLease(t *testing.T) {
	w := statetest.New(t)
	w.Node("n1")
	statetest.Do(w, lease.NodeLeaseSet, &cluster.NodeLeaseRequest{NodeID: "n1", Length: time.Hour})
	w.Status(structs.NodeDown, "n1")
	statetest.Do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}})
	if got := lengths(w); len(got) > 0 {
		t.Errorf("got %v after the node was deleted", got)
	}
}

// The node counts a lease that the leader of the replaced state has granted.
func TestRecover_KeepsLongerLeasesOfNodes(t *testing.T) {
	with := func(length time.Duration) *statetest.Fixture {
		w := statetest.New(t)
		w.Node("n1")
		if length > 0 {
			statetest.Do(w, lease.NodeLeaseSet, &cluster.NodeLeaseRequest{NodeID: "n1", Length: length})
		}
		return w
	}
	for _, c := range []struct{ archive, before, want time.Duration }{
		{0, time.Hour, time.Hour},
		{time.Minute, time.Hour, time.Hour},
		{time.Hour, time.Minute, time.Hour},
	} {
		w := with(c.archive)
		before := with(c.before).Store.Read()
		err := w.Store.Write(w.Index+1, func(tx *state.WriteTx) error {
			state.Recover(tx, before, 1)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := lengths(w); !slices.Equal(got, []time.Duration{c.want}) {
			t.Errorf("archive %s, replaced state %s: got %v", c.archive, c.before, got)
		}
	}
}
