package state_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
)

func withHostVolume(id, path string) *structs.Node {
	n := aNode(id)
	n.HostVolumes = map[string]*structs.HostVolume{"data": {Path: path}}
	return n
}

func TestComputedClass_OfHostVolumes(t *testing.T) {
	base := state.ComputedClass(withHostVolume("n1", "/a"))
	if state.ComputedClass(withHostVolume("n1", "/b")) != base {
		t.Error("the path changes the class")
	}
	other := withHostVolume("n1", "/a")
	other.HostVolumes["data"].ReadOnly = true
	if state.ComputedClass(other) == base || state.ComputedClass(aNode("n1")) == base {
		t.Error("a volume that is read-only or not there does not change the class")
	}
}

func TestNodeRegister_EvaluatesAfterChangesOfHostVolumes(t *testing.T) {
	w := newFixture(t)
	w.Job(aJob("everywhere", structs.JobSystem))
	for _, n := range []*structs.Node{aNode("n1"), withHostVolume("n1", "/a"), withHostVolume("n1", "/b")} {
		do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: n, WriteOptions: w.Now()})
		w.wantEvaluated("node-update everywhere")
	}
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{
		Node: withHostVolume("n1", "/b"), WriteOptions: w.Now(),
	})
	w.wantEvaluated()
}

// Two plans that were made from one state give a host volume to two writers: the second one is rejected.
func TestPlan_HasOneWriterOfAHostVolume(t *testing.T) {
	for _, mode := range []structs.CSIAccessMode{"", structs.CSISingleNodeSingleWriter} {
		w := newFixture(t)
		w.Node("n1")
		j := aJob("j", structs.JobService)
		j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"d": {
			Name:       "d",
			Type:       structs.VolumeTypeHost,
			Source:     "data",
			AccessMode: mode,
		}}
		j = w.Job(j)
		do(w, state.PlanApply, w.PlanOf(j, "x@n1", "y@n1"))
		do(w, state.PlanApply, w.PlanOf(j, "z@n1"))
		want := "x y z"
		if mode != "" {
			want = "z" // the first plan has two writers on one node
		}
		if got := w.Placed("x", "y", "z"); got != want {
			t.Errorf("mode %q: placed %q, want %q", mode, got, want)
		}
		last := w.PlanOf(j, "u@n1")
		do(w, state.PlanApply, last)
		e := state.Eval(w.Store.Read(), last.Eval.ID)
		rejected := strings.Contains(e.StatusDescription, "host volume data has a writer")
		if rejected != (mode != "") {
			t.Errorf("mode %q: the evaluation says %q", mode, e.StatusDescription)
		}
		stop := w.PlanOf(j, "v@n1")
		stop.Stop = []*structs.PlanStop{{AllocID: "z"}}
		do(w, state.PlanApply, stop)
		if w.Placed("v") != "v" {
			t.Errorf("mode %q: a plan that stops the writer is rejected", mode)
		}
	}
}
