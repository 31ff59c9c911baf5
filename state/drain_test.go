package state_test

import (
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// drainNode starts a drain of node n1.
func (w *fixture) drainNode(spec *structs.DrainSpec) *structs.Node {
	w.T.Helper()
	do(w, state.NodeDrain, &structs.NodeDrainRequest{
		NodeID:       "n1",
		DrainSpec:    spec,
		Meta:         map[string]string{"message": "new disk"},
		WriteOptions: w.Now(),
	})
	return state.Node(w.Store.Read(), "n1")
}

func TestNodeDrain_MakesTheNodeIneligible(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	n := w.drainNode(&structs.DrainSpec{Deadline: time.Hour})
	started := n.DrainStrategy.StartedAt
	if n.Ready() || !n.Drain || n.SchedulingEligibility != structs.NodeIneligible ||
		!n.DrainStrategy.ForceDeadline.Equal(started.Add(time.Hour)) {
		t.Errorf("got %+v", n.DrainStrategy)
	}
	if n.LastDrain.Status != structs.DrainDraining || n.LastDrain.Meta["message"] != "new disk" {
		t.Errorf("got %+v", n.LastDrain)
	}
	n = w.drainNode(&structs.DrainSpec{})
	if !n.DrainStrategy.StartedAt.Equal(started) || !n.DrainStrategy.ForceDeadline.IsZero() {
		t.Errorf("after a change got %+v, want the same start and no deadline", n.DrainStrategy)
	}
}

func TestNodeDrain_SurvivesARegistration(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.drainNode(&structs.DrainSpec{})
	w.Node("n1")
	n := state.Node(w.Store.Read(), "n1")
	if n.DrainStrategy == nil || !n.Drain || n.LastDrain == nil {
		t.Errorf("a registration ended the drain: %+v", n)
	}
	forged := aNode("n2")
	forged.Drain = true
	forged.DrainStrategy = &structs.DrainStrategy{}
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: forged, WriteOptions: w.Now()})
	if n := state.Node(w.Store.Read(), "n2"); n.Drain || n.DrainStrategy != nil {
		t.Error("a node started its own drain")
	}
}

func TestNodeDrain_Cancel(t *testing.T) {
	for _, eligible := range []bool{false, true} {
		w := newFixture(t)
		w.Node("n1")
		w.drainNode(&structs.DrainSpec{})
		do(w, state.NodeDrain, &structs.NodeDrainRequest{NodeID: "n1", MarkEligible: eligible, WriteOptions: w.Now()})
		n := state.Node(w.Store.Read(), "n1")
		if n.Drain || n.DrainStrategy != nil || n.Ready() != eligible ||
			n.LastDrain.Status != structs.DrainCanceled || n.LastDrain.Meta["message"] != "new disk" {
			t.Errorf("eligible %t: got %+v, %+v", eligible, n, n.LastDrain)
		}
	}
}

// Clients of the dialect set MarkEligible also for a start, as long as the node is not to stay ineligible.
func TestNodeDrain_StartsIneligible(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	do(w, state.NodeDrain, &structs.NodeDrainRequest{
		NodeID:       "n1",
		DrainSpec:    &structs.DrainSpec{},
		MarkEligible: true,
		WriteOptions: w.Now(),
	})
	n := state.Node(w.Store.Read(), "n1")
	if !n.Drain || n.SchedulingEligibility != structs.NodeIneligible {
		t.Errorf("got a drain %t, and a node that is %s", n.Drain, n.SchedulingEligibility)
	}
}

func TestNodeDrain_Rejects(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	long := map[string]string{"message": string(make([]byte, structs.MaxDrainMeta))}
	for name, req := range map[string]*structs.NodeDrainRequest{
		"long notes":          {NodeID: "n1", DrainSpec: &structs.DrainSpec{}, Meta: long},
		"a deadline too late": {NodeID: "n1", DrainSpec: &structs.DrainSpec{Deadline: 1 << 62}},
	} {
		err := try(w, state.NodeDrain, req)
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := try(w, state.NodeDrain, &structs.NodeDrainRequest{NodeID: "n9"})
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("an unknown node: %v", err)
	}
}

func TestNodeDrained_EndsOnlyTheDrainThatItNames(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	n := w.drainNode(&structs.DrainSpec{})
	end := func(at time.Time) *structs.Node {
		do(w, state.NodeDrained, &structs.NodeDrainedUpdate{
			Nodes:        []structs.DrainedNode{{NodeID: "n1", StartedAt: at}, {NodeID: "gone"}},
			WriteOptions: w.Now(),
		})
		return state.Node(w.Store.Read(), "n1")
	}
	if end(n.DrainStrategy.StartedAt.Add(-time.Second)).DrainStrategy == nil {
		t.Error("the end of an earlier drain ended this one")
	}
	n = end(n.DrainStrategy.StartedAt)
	if n.Drain || n.LastDrain.Status != structs.DrainComplete || n.Ready() {
		t.Errorf("got %+v", n.LastDrain)
	}
}

func TestAllocsMigrate_EvaluatesEachJobOnce(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Job(aJob("web", structs.JobService))
	w.Alloc("a1", "web", "n1")
	w.Alloc("a2", "web", "n1")
	w.Alloc("a3", "web", "n1")
	w.Stop("a3", structs.AllocComplete)
	before := len(w.evaluated())
	do(w, state.AllocsMigrate, &structs.AllocsMigrateRequest{
		AllocIDs: []string{"a1", "a2", "a3", "gone"},
		Events: map[string][]*structs.NodeEvent{
			"n1": {{Message: "forced", Subsystem: state.DrainSubsystem}},
		},
		WriteOptions: w.Now(),
	})
	tx := w.Store.Read()
	if !state.Alloc(tx, "a1").Migrate || !state.Alloc(tx, "a2").Migrate || state.Alloc(tx, "a3").Migrate {
		t.Error("the wrong allocations move")
	}
	if got := len(w.evaluated()) - before; got != 1 {
		t.Errorf("%d evaluations, want 1", got)
	}
	events := state.Node(tx, "n1").Events
	if last := events[len(events)-1]; last.Message != "forced" {
		t.Errorf("the last event is %+v", last)
	}
}

// A plugin serves until its call has an outcome: a controller elsewhere does not repeat it.
func TestHeldVolumes_CountsTheCallsOfAController(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Update("n1", attachingHalves("p")...)
	if n, first := state.HeldVolumes(w.Store.Read(), "n3"); n != 0 {
		t.Errorf("before the call n3 holds %d: %s", n, first)
	}
	do(w, csi.CallNote, &structs.CSICallNote{
		VolumeID:     "v",
		NodeID:       "n1",
		Call:         &structs.CSICall{NodeID: "n3", Op: "attach", Time: 1},
		WriteOptions: w.Now(),
		RowIndex:     csi.Attachment(w.Store.Read(), "default", "v", "n1").CreateIndex,
	})
	n, first := state.HeldVolumes(w.Store.Read(), "n3")
	if n != 1 || !strings.Contains(first, "in a call of the controller there, the attach") {
		t.Errorf("n3 holds %d: %s", n, first)
	}
}

// A node has a volume until it is detached: the plugin on the node may be its own controller.
func TestHeldVolumes_CountsWhatIsAttached(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Outcome("v", "n1", "attach", nil)
	check := func(when string, count int, text string) {
		t.Helper()
		if n, first := state.HeldVolumes(w.Store.Read(), "n1"); n != count || !strings.Contains(first, text) {
			t.Errorf("%s n1 holds %d: %q, want %d: %q", when, n, first, count, text)
		}
	}
	check("with a claim", 1, "claimed by allocation a1")
	w.Release("v", "a1")
	check("without the claim", 1, "volume v of namespace default is attached")
	w.Outcome("v", "n1", "detach", nil)
	check("after the detach", 0, "")
}
