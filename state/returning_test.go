package state_test

import (
	"testing"

	"berth/state"
	"berth/structs"
)

// bootedNode is a node whose agent tells its boot, so it can tell that it is clean.
func (w *fixture) bootedNode(id string) {
	w.T.Helper()
	n := aNode(id)
	n.BootID = "b1"
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: n, WriteOptions: w.Now()})
}

func (w *fixture) clean(epoch uint64) {
	w.T.Helper()
	do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n1"},
		Status:       structs.NodeReady,
		CleanFor:     epoch,
		WriteOptions: w.Now(),
	})
}

func (w *fixture) wantReady(what string, want bool) {
	w.T.Helper()
	n := state.Node(w.Store.Read(), "n1")
	if n.Ready() != want || n.Returning == want {
		w.T.Errorf("%s: ready is %v and returning %v, want ready: %v", what, n.Ready(), n.Returning, want)
	}
}

func TestReturning_UntilTheNodeIsCleanInItsEpoch(t *testing.T) {
	w := newFixture(t)
	w.bootedNode("n1")
	w.wantReady("a new node", true)
	lost := w.Epoch("n1")
	w.Status(structs.NodeDown, "n1")
	w.Status(structs.NodeReady, "n1")
	w.wantReady("back by a heartbeat", false)
	w.bootedNode("n1")
	w.wantReady("registered again", false)
	w.clean(lost)
	w.wantReady("clean in the epoch before the loss", false)
	w.clean(0)
	w.wantReady("a heartbeat that tells nothing", false)
	w.clean(w.Epoch("n1"))
	w.wantReady("clean", true)

	w.Status(structs.NodeDown, "n1")
	w.bootedNode("n1")
	w.wantReady("back by a registration", false)
	do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:       "n1",
		Eligibility:  structs.NodeEligible,
		WriteOptions: w.Now(),
	})
	w.wantReady("an operator has decided", true)
}

// The jobs that wait for the node are evaluated when it takes allocations.
func TestReturning_EvaluatesAtItsEnd(t *testing.T) {
	w := newFixture(t)
	w.bootedNode("n1")
	w.Job(aJob("everywhere", structs.JobSystem))
	w.Status(structs.NodeDown, "n1")
	w.Status(structs.NodeReady, "n1")
	for _, e := range pendingEvals(w) {
		e = new(*e)
		e.Status = structs.EvalComplete
		do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{e}, WriteOptions: w.Now()})
	}
	w.clean(w.Epoch("n1"))
	if evals := pendingEvals(w); len(evals) != 1 || evals[0].JobID != "everywhere" {
		t.Errorf("%d evaluations are pending, want one of the system job", len(evals))
	}
}

func pendingEvals(w *fixture) (pending []*structs.Evaluation) {
	for e := range state.EvalsByJob(w.Store.Read(), structs.DefaultNamespace, "everywhere") {
		if e.Status == structs.EvalPending {
			pending = append(pending, e)
		}
	}
	return pending
}

// The node gets its plugins back, without which it cannot release its volumes.
func TestReturning_TakesItsPlugins(t *testing.T) {
	w := newFixture(t)
	w.bootedNode("n1")
	plugin := aJob("driver", structs.JobSystem, "p")
	other := aJob("other", structs.JobSystem)
	w.Status(structs.NodeDown, "n1")
	w.Status(structs.NodeReady, "n1")
	tx := w.Store.Read()
	n := state.Node(tx, "n1")
	if !state.NeedsPlugin(tx, n, plugin, plugin.TaskGroups[0]) {
		t.Error("the node does not get its plugin back")
	}
	if state.NeedsPlugin(tx, n, other, other.TaskGroups[0]) {
		t.Error("the node gets a job that runs no plugin")
	}
}
