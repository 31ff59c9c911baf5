package state_test

import (
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

// leave drains node n1 for the shutdown of its agent. comeBack ends that.
func (w *fixture) leave(spec structs.DrainSpec) *structs.Node {
	w.T.Helper()
	do(w, state.NodeLeave, &structs.NodeLeaveRequest{NodeID: "n1", DrainSpec: &spec, WriteOptions: w.Now()})
	return state.Node(w.Store.Read(), "n1")
}

func (w *fixture) comeBack() *structs.Node {
	w.T.Helper()
	do(w, state.NodeLeave, &structs.NodeLeaveRequest{NodeID: "n1", WriteOptions: w.Now()})
	return state.Node(w.Store.Read(), "n1")
}

func (w *fixture) drained() {
	w.T.Helper()
	started := state.Node(w.Store.Read(), "n1").DrainStrategy.StartedAt
	do(w, state.NodeDrained, &structs.NodeDrainedUpdate{
		Nodes:        []structs.DrainedNode{{NodeID: "n1", StartedAt: started}},
		WriteOptions: w.Now(),
	})
}

func (w *fixture) eligibility(of string) {
	w.T.Helper()
	do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:       "n1",
		Eligibility:  of,
		WriteOptions: w.Now(),
	})
}

func (w *fixture) cancelDrain(eligible bool) {
	w.T.Helper()
	do(w, state.NodeDrain, &structs.NodeDrainRequest{NodeID: "n1", MarkEligible: eligible, WriteOptions: w.Now()})
}

func TestNodeLeave_SaysWhyTheNodeDrains(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	n := w.leave(structs.DrainSpec{Deadline: time.Hour, IgnoreSystemJobs: true})
	s := n.DrainStrategy
	if s == nil || s.Deadline != time.Hour || !s.IgnoreSystemJobs || n.Ready() || !n.Drain ||
		!s.ForceDeadline.Equal(s.StartedAt.Add(time.Hour)) {
		t.Errorf("the node has the drain %+v", s)
	}
	last := n.Events[len(n.Events)-1]
	if n.LastDrain.Meta["message"] != state.LeaveMessage || last.Subsystem != state.DrainSubsystem ||
		last.Message != "Node drained because its agent was shut down" {
		t.Errorf("got the notes %v and the event %+v", n.LastDrain.Meta, last)
	}
}

// The next start of the agent undoes what its shutdown has done, and nothing that an operator has decided.
func TestNodeLeave_RestoresTheEligibilityOnTheNextStart(t *testing.T) {
	spec := structs.DrainSpec{Deadline: time.Hour}
	for name, c := range map[string]struct {
		happens  func(w *fixture)
		eligible bool
		drains   bool
	}{
		"in the middle of the drain": {func(w *fixture) { w.leave(spec) }, true, false},
		"after the drain":            {func(w *fixture) { w.leave(spec); w.drained() }, true, false},
		"after two shutdowns": {func(w *fixture) {
			w.leave(spec)
			w.drained()
			w.leave(spec)
		}, true, false},
		"without a drain":            {func(*fixture) {}, true, false},
		"ineligible without a drain": {func(w *fixture) { w.eligibility("ineligible") }, false, false},
		"ineligible before the shutdown": {func(w *fixture) {
			w.eligibility("ineligible")
			w.leave(spec)
		}, false, false},
		"ineligible during the drain":  {func(w *fixture) { w.leave(spec); w.eligibility("ineligible") }, false, false},
		"draining before the shutdown": {func(w *fixture) { w.drainNode(&spec); w.leave(spec) }, false, true},
		"drained before the shutdown": {func(w *fixture) {
			w.drainNode(&spec)
			w.drained()
			w.leave(spec)
		}, false, false},
		"drained by an operator meanwhile": {func(w *fixture) { w.leave(spec); w.drainNode(&spec) }, false, true},
		"cancelled, to stay ineligible":    {func(w *fixture) { w.leave(spec); w.cancelDrain(false) }, false, false},
		"ended, to stay ineligible": {func(w *fixture) {
			w.leave(spec)
			w.drained()
			w.cancelDrain(false)
		}, false, false},
		"made eligible, then ineligible": {func(w *fixture) {
			w.leave(spec)
			w.drained()
			w.eligibility("eligible")
			w.eligibility("ineligible")
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Node("n1")
			c.happens(w)
			n := w.comeBack()
			if eligible := n.SchedulingEligibility == structs.NodeEligible; eligible != c.eligible ||
				n.Drain != c.drains || (n.DrainStrategy != nil) != c.drains || state.HasLeft(n) {
				t.Errorf("the node is %s, its drain is %+v, %+v", n.SchedulingEligibility, n.DrainStrategy, n.LastDrain)
			}
			again := w.comeBack()
			if again.ModifyIndex != n.ModifyIndex {
				t.Error("a second report of the start changes the node")
			}
		})
	}
}

// An operator's drain has its own pace and notes. A shutdown changes neither.
func TestNodeLeave_ChangesNoDrainOfAnOperator(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	before := w.drainNode(&structs.DrainSpec{})
	after := w.leave(structs.DrainSpec{Deadline: -1})
	if after.ModifyIndex != before.ModifyIndex {
		t.Errorf("got %+v, want %+v", after.DrainStrategy, before.DrainStrategy)
	}
}

// Plugins that a drain has stopped by force run again when the node is eligible again.
func TestNodeLeave_LetsPluginsRunAgain(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	started := w.leave(structs.DrainSpec{Deadline: -1}).DrainStrategy.StartedAt
	do(w, state.NodeDrained, &structs.NodeDrainedUpdate{
		Nodes:        []structs.DrainedNode{{NodeID: "n1", StartedAt: started, PluginsOff: true}},
		WriteOptions: w.Now(),
	})
	if n := w.comeBack(); n.LastDrain.PluginsOff || n.LastDrain.Status != structs.DrainComplete {
		t.Errorf("got %+v", n.LastDrain)
	}
}

// The jobs of the node are evaluated when it is back, as after `node eligibility -enable`.
func TestNodeLeave_EvaluatesTheJobsOfANodeThatIsBack(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Job(aJob("everywhere", structs.JobSystem))
	w.leave(structs.DrainSpec{})
	count := func() (n int) {
		for range state.EvalsByJob(w.Store.Read(), "default", "everywhere") {
			n++
		}
		return n
	}
	before := count()
	w.comeBack()
	if count() != before+1 {
		t.Errorf("%d evaluations are new, want 1", count()-before)
	}
}

func TestNodeLeave_NeedsTheNode(t *testing.T) {
	w := newFixture(t)
	err := try(w, state.NodeLeave, &structs.NodeLeaveRequest{NodeID: "n1", WriteOptions: w.Now()})
	wantKind(t, err, structs.KindNotFound)
}
