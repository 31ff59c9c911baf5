package drainer

import (
	"reflect"
	"slices"
	"testing"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// TestWaits_OfSomeNodes: the waits of some nodes are those of each, and nodes that do not drain have none.
func TestWaits_OfSomeNodes(t *testing.T) {
	f := newFleet(t, 4)
	f.register("logs", structs.JobSystem, 1)
	for _, node := range []string{"n0", "n1", "n2"} {
		f.drain(node, structs.DrainSpec{})
		f.Stuck[f.allocOn(node)] = true
	}
	schedtest.Do(f.Fleet, state.AllocsMigrate, &structs.AllocsMigrateRequest{
		AllocIDs:     []string{f.allocOn("n0"), f.allocOn("n1"), f.allocOn("n2")},
		WriteOptions: f.Now(),
	})
	tx := f.Store.Read()
	n0 := state.Node(tx, "n0")
	n2 := state.Node(tx, "n2")
	got := WaitsOf(tx, []*structs.Node{n2, n0, state.Node(tx, "n3")}, f.Clock)
	want := slices.Concat(Waits(tx, n0, f.Clock), Waits(tx, n2, f.Clock))
	if len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Waits(tx, state.Node(tx, "n3"), f.Clock); got != nil {
		t.Errorf("a node that does not drain has %+v", got)
	}
}

// allocOn returns the ID of the only allocation on a node.
func (f *fleet) allocOn(node string) string {
	f.T.Helper()
	for a := range state.AllocsByNode(f.Store.Read(), node) {
		return a.ID
	}
	f.T.Fatalf("no allocation is on node %s", node)
	return ""
}
