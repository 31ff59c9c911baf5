package node_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/state"
	"berth/structs"
)

// The notes of a cancellation stand beside those of the drain, and a change without notes keeps them. Without
// a drain there is nothing to note.
func TestNodeDrain_KeepsItsNotes(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	drain := func(spec *structs.DrainSpec, meta map[string]string) {
		t.Helper()
		endpointstest.Must(s, structs.NodeDrain,
			&structs.NodeDrainRequest{NodeID: "n1", DrainSpec: spec, Meta: meta})
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		last := state.Node(s.Store.Read(), "n1").LastDrain
		if !maps.Equal(last.Meta, want) {
			t.Errorf("%s: the drain has the notes %v, want %v", when, last.Meta, want)
		}
	}
	drain(&structs.DrainSpec{}, map[string]string{"message": "disk"})
	drain(nil, map[string]string{"cancel_message": "later"})
	check("after the end", map[string]string{"message": "disk", "cancel_message": "later"})
	drain(nil, map[string]string{"cancel_message": "again"})
	check("after another end", map[string]string{"message": "disk", "cancel_message": "later"})
	drain(&structs.DrainSpec{}, nil)
	drain(nil, map[string]string{"cancel_message": "later"})
	check("without notes of its own", map[string]string{"cancel_message": "later"})
	drain(&structs.DrainSpec{}, map[string]string{"message": strings.Repeat("x", structs.MaxDrainMeta/2)})
	endpointstest.Rejected(s, structs.KindInvalid, structs.NodeDrain, &structs.NodeDrainRequest{
		NodeID: "n1",
		Meta:   map[string]string{"cancel_message": strings.Repeat("x", structs.MaxDrainMeta/2)},
	})
	drain(nil, nil)
	drain(&structs.DrainSpec{}, map[string]string{"message": "disk"})
	drain(&structs.DrainSpec{IgnoreSystemJobs: true}, nil)
	check("after a change without notes", map[string]string{"message": "disk"})
	drain(&structs.DrainSpec{}, map[string]string{"message": "board"})
	check("after a change with notes", map[string]string{"message": "board"})
	drain(nil, nil)
	drain(&structs.DrainSpec{}, nil)
	check("of the next drain", nil)
}

// The leader's loop takes no step of a drain while a request changes it.
func TestNodeDrain_LocksTheDrains(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	lock := &lockOfDrains{drains: func() bool { return state.Node(s.Store.Read(), "n1").DrainStrategy != nil }}
	s.Drains = lock
	endpointstest.Must(s, structs.NodeDrain,
		&structs.NodeDrainRequest{NodeID: "n1", DrainSpec: &structs.DrainSpec{}})
	if !slices.Equal(lock.seen, []bool{false, true}) {
		t.Errorf("the node drains at the lock and the unlock: %v, want false and true", lock.seen)
	}
}

// lockOfDrains notes whether a node drains when it is locked and unlocked.
type lockOfDrains struct {
	drains func() bool
	seen   []bool
}

func (l *lockOfDrains) Lock()   { l.seen = append(l.seen, l.drains()) }
func (l *lockOfDrains) Unlock() { l.seen = append(l.seen, l.drains()) }

// The status of a drain tells what each allocation waits for.
func TestNodeDrainStatus_TellsWhatIsWaitedFor(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	endpointstest.Must(s, structs.NodeDrain,
		&structs.NodeDrainRequest{NodeID: "n1", DrainSpec: &structs.DrainSpec{}})
	got := endpointstest.Must(s, structs.NodeDrainStatus, &structs.NodeGetRequest{NodeID: "n1"})
	if len(got.Waits) != 1 || got.Waits[0].AllocID != "a1" || got.Waits[0].Reason == "" ||
		got.DrainStrategy == nil || got.LastDrain == nil {
		t.Errorf("got %+v", got)
	}
}

// A node that registers learns that its last shutdown has drained it, until it has said that it is back.
func TestNodeLeave_IsToldToTheNextAgent(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	lock := &lockOfDrains{drains: func() bool { return state.Node(s.Store.Read(), "n1").DrainStrategy != nil }}
	s.Drains = lock
	leave := func(spec *structs.DrainSpec) {
		t.Helper()
		endpointstest.Must(s, structs.NodeLeave, &structs.NodeLeaveRequest{
			NodeID:    "n1",
			SecretID:  endpointstest.SecretOf("n1"),
			DrainSpec: spec,
		})
	}
	left := func() bool {
		t.Helper()
		node := state.Node(s.Store.Read(), "n1").Copy()
		return endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: node}).Left
	}
	if left() {
		t.Error("a node that has not left is told so")
	}
	leave(&structs.DrainSpec{Deadline: time.Hour})
	if !left() || state.Node(s.Store.Read(), "n1").DrainStrategy == nil {
		t.Error("a node that has left is not told so, or its registration ends the drain")
	}
	leave(nil)
	if left() || !state.Node(s.Store.Read(), "n1").Ready() {
		t.Error("the node is not back")
	}
	if !slices.Equal(lock.seen, []bool{false, true, true, false}) {
		t.Errorf("the node drains at the locks and unlocks: %v", lock.seen)
	}
	for _, secret := range []string{"", "wrong"} {
		endpointstest.Rejected(s, structs.KindDenied, structs.NodeLeave, &structs.NodeLeaveRequest{
			NodeID:   "n1",
			SecretID: secret,
		})
	}
	endpointstest.Rejected(s, structs.KindInvalid, structs.NodeLeave, &structs.NodeLeaveRequest{
		NodeID:    "n1",
		SecretID:  endpointstest.SecretOf("n1"),
		DrainSpec: &structs.DrainSpec{Deadline: structs.MaxDrainDeadline + 1},
	})
}
