package scheduler

import (
	"fmt"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/state/unblock"
	"berth/structs"
)

// TestRetryEval_OfOneNodeIsNotForTheWholeJob: a per-node job with too many unblock keys retries, although one
// of its nodes is to be evaluated anyway.
func TestRetryEval_OfOneNodeIsNotForTheWholeJob(t *testing.T) {
	w := newFixture(t)
	w.volume("w", "hostpath")
	w.node(aNode("n0"), half("hostpath", structs.CSIKindNode))
	w.submit(aJob("log", structs.JobSystem, smallRequest,
		volume("w", structs.CSIMultiNodeMultipleWriter, false)), "log")
	w.scheduleAll()
	w.client(w.allocs("log")[0], structs.AllocFailed)
	w.scheduleAll() // n0 is to be evaluated later
	var all []*structs.CSIVolume
	for i := range 9 {
		w.node(aNode(fmt.Sprint("n", i+1)), limitedPlugin(128))
		for v := range 128 {
			id := fmt.Sprintf("v%d-%d", i+1, v)
			all = append(all, &structs.CSIVolume{
				ID: id, Namespace: "default",
				CSIVolumeSpec: structs.CSIVolumeSpec{Name: id, PluginID: "hostpath", ExternalID: id},
			})
		}
	}
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: all, WriteOptions: w.now()})
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "log", WriteOptions: w.now()})
	w.drainQuick()
	for i := range 9 {
		edits := []func(*structs.Job){smallRequest, constraints(&structs.Constraint{
			LTarget: "${node.unique.id}",
			RTarget: fmt.Sprint("n", i+1),
			Operand: "=",
		})}
		for v := range 128 {
			edits = append(edits, volume(fmt.Sprintf("v%d-%d", i+1, v), structs.CSISingleNodeWriter, false))
		}
		w.submit(aJob(fmt.Sprint("fill", i+1), structs.JobService, edits...), fmt.Sprint("fill", i+1))
		w.drainQuick()
	}
	w.submit(aJob("log", structs.JobSystem, smallRequest,
		volume("w", structs.CSIMultiNodeMultipleWriter, false)), "again")
	w.drainQuick()
	w.client(w.allocs("log")[0], structs.AllocFailed)
	w.drainQuick()
	var nodes []string
	for e := range state.LaterEvalsByJob(w.s.Read(), "default", "log") {
		nodes = append(nodes, fmt.Sprintf("%q at %d", e.NodeID, (e.WaitUntil-w.clock.UnixNano())/1e9))
	}
	w.submit(aJob("log", structs.JobSystem, smallRequest, func(j *structs.Job) {
		j.Meta = map[string]string{"a": "b"}
	},
		volume("w", structs.CSIMultiNodeMultipleWriter, false)), "third")
	for e := range state.LaterEvalsByJob(w.s.Read(), "default", "log") {
		if e.NodeID == "" { // as if its time had come
			c := e.Copy()
			c.Status = structs.EvalComplete
			do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{c}, WriteOptions: w.now()})
		}
	}
	w.drainQuick()
	whole := 0
	for e := range state.LaterEvalsByJob(w.s.Read(), "default", "log") {
		nodes = append(nodes, fmt.Sprintf("%q at %d", e.NodeID, (e.WaitUntil-w.clock.UnixNano())/1e9))
		if e.NodeID == "" {
			whole++
		}
	}
	b := state.BlockedEval(w.s.Read(), "default", "log")
	t.Log(nodes, len(b.BlockedOn))
	if whole == 0 {
		t.Errorf("evaluation waits for %d of 1152 volumes and has no retry: %v", len(b.BlockedOn), nodes)
	}
}

func (w *fixture) drainQuick() {
	w.t.Helper()
	for range 100 {
		n := 0
		for e := range state.ReadyEvals(w.s.Read()) {
			if state.Eval(w.s.Read(), e.ID).Status == structs.EvalPending {
				w.applyLate(w.process(e))
				n++
			}
		}
		if unblock.Due(w.s.Read()) {
			do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Wake: 20, WriteOptions: w.now()})
			n++
		}
		if n == 0 {
			return
		}
	}
}
