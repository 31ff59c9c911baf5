package scheduler

import (
	"fmt"
	"slices"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/state/statetest"
	"berth/state/unblock"
	"berth/structs"
)

// smallRequest makes a job request nearly nothing.
func smallRequest(j *structs.Job) {
	*j.TaskGroups[0].Tasks[0].Resources = structs.Resources{CPU: 1, MemoryMB: 1}
}

// limitedPlugin returns a node instance of hostpath that takes a number of volumes.
func limitedPlugin(most int64) *structs.CSIPluginInstance {
	n := half("hostpath", structs.CSIKindNode)
	n.NodeInfo.MaxVolumes = most
	return n
}

// scheduleAll runs the scheduler until it has no work, and checks that no evaluation is blocked without a
// reason.
func (w *fixture) scheduleAll() {
	w.t.Helper()
	for range 1000 {
		tx := w.s.Read()
		ready := slices.Collect(state.ReadyEvals(tx))
		if len(ready) == 0 && !unblock.Due(tx) {
			break
		}
		if len(ready) == 0 {
			do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Wake: 2, WriteOptions: w.now()})
			continue
		}
		w.applyLate(w.process(ready[0]))
	}
	tx := w.s.Read()
	for j := range state.JobsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		e := w.eval(j.ID)
		e.Type = j.Type
		if p := w.process(e); len(p.Place)+len(p.Stop) > 0 {
			var open []string
			for e := range state.EvalsByJob(tx, j.Namespace, j.ID) {
				if !e.Terminal() {
					open = append(open, fmt.Sprint(e.Status, e.BlockedOn))
				}
			}
			w.t.Errorf("job %s needs a plan that no evaluation will make: %s; open: %v", j.ID, describe(p), open)
		}
	}
}

// submit registers a job with an evaluation of it.
func (w *fixture) submit(j *structs.Job, eval string) {
	w.t.Helper()
	do(w, state.JobRegister, &structs.JobRegisterRequest{
		Job:          j,
		WriteOptions: w.now(),
		Eval:         &structs.Evaluation{ID: eval, TriggeredBy: structs.TriggerJobRegister},
	})
}

func (w *fixture) deregisterVolume(volume string, force bool) {
	w.t.Helper()
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID:           volume,
		Force:        force,
		WriteOptions: w.now(),
	})
}

// applyLate applies a plan that entries of others may have overtaken.
func (w *fixture) applyLate(p *structs.Plan) {
	w.t.Helper()
	p.WriteOptions = w.now()
	do(w, state.PlanApply, p)
}

func (w *fixture) pendingOf(id string) *structs.Evaluation {
	w.t.Helper()
	e := state.Eval(w.s.Read(), id)
	if e == nil || e.Status != structs.EvalPending {
		w.t.Fatalf("%s: %+v", id, e)
	}
	return e
}

func nodeEval(w *fixture, job, node string) *structs.Evaluation {
	w.t.Helper()
	for e := range state.ReadyEvals(w.s.Read()) {
		if e.JobID == job && e.NodeID == node {
			return e
		}
	}
	w.t.Fatalf("no pending evaluation of %s for %s", job, node)
	return nil
}

// TestBlockedEval_StaysUnblocked: a plan for one node of a job finds no capacity. While it is made, the
// unblock key of the job on another node is unblocked.
func TestBlockedEval_StaysUnblocked(t *testing.T) {
	w := newFixture(t)
	w.volume("a", "hostpath")
	w.job(aJob("log", structs.JobSystem, cpu(200), volume("a", structs.CSIMultiNodeMultipleWriter, false)))
	sick := half("hostpath", structs.CSIKindNode)
	sick.Healthy = false
	small := aNode("n1")
	small.NodeResources.CPU.CpuShares = 100
	w.node(small, half("hostpath", structs.CSIKindNode))
	w.node(aNode("n2"), sick)
	w.applyLate(w.process(nodeEval(w, "log", "n2"))) // waits for the plugin
	made := w.process(nodeEval(w, "log", "n1"))      // waits for capacity
	if made.Blocked == nil {
		t.Fatal("n1 has free capacity")
	}
	w.csi("n2", half("hostpath", structs.CSIKindNode))
	w.applyLate(made)
	w.scheduleAll()
	w.wantPlaced("log", "0@n2")
}

// TestBlockedEval_SeesAChangeLeftToAnother: an unblock key of a job is unblocked while the job is planned for
// its present needs. An evaluation that leaves this change to that plan does not miss it.
func TestBlockedEval_SeesAChangeLeftToAnother(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	spec := func(source string) *structs.Job {
		return aJob("web", structs.JobService, volume(source, structs.CSIMultiNodeMultipleWriter, false),
			func(j *structs.Job) {
				h := *j.TaskGroups[0]
				h.Name, h.Volumes = "h", nil
				j.TaskGroups = append(j.TaskGroups, &h)
			})
	}
	w.submit(spec("v1"), "first")
	w.scheduleAll()
	w.submit(spec("v2"), "zzz") // behind the one that waits
	made := w.process(w.pendingOf("zzz"))
	w.volume("v1", "hostpath")
	w.status(w.allocs("web")[0].NodeID, structs.NodeDown)
	w.applyLate(made)
	w.scheduleAll()
}

// nodeWithHeldVolumes returns a cluster whose only node has a limit of volumes. Ended allocations hold all of
// them, and jobs wait for a place there.
func nodeWithHeldVolumes(t *testing.T, most, waiting int) (w *fixture, held []*structs.Allocation) {
	w = newFixture(t)
	w.node(aNode("n1"), limitedPlugin(int64(most)), half("hostpath", structs.CSIKindController))
	for i := range most {
		w.volume(fmt.Sprint("v", i), "hostpath")
		w.submit(aJob(fmt.Sprint("had", i), structs.JobBatch, smallRequest,
			volume(fmt.Sprint("v", i), structs.CSISingleNodeWriter, false)), fmt.Sprint("had", i))
	}
	w.scheduleAll()
	for a := range state.AllocsFrom(w.s.Read(), "default", "", state.Page{}) {
		w.claim(a)
		w.client(a, structs.AllocComplete)
		held = append(held, a)
	}
	w.scheduleAll()
	for i := range waiting {
		w.volume(fmt.Sprint("w", i), "hostpath")
		w.submit(aJob(fmt.Sprint("waits", i), structs.JobService, smallRequest,
			volume(fmt.Sprint("w", i), structs.CSISingleNodeWriter, false)), fmt.Sprint("waits", i))
	}
	w.scheduleAll()
	return w, held
}

// TestBlockedEval_FindsThePlaceOfADeletedVolume before all that wait for it are unblocked.
func TestBlockedEval_FindsThePlaceOfADeletedVolume(t *testing.T) {
	w, held := nodeWithHeldVolumes(t, 12, 12)
	for _, a := range held {
		w.release(a)
	}
	for i := range held {
		w.deregisterVolume(fmt.Sprint("v", i), false)
	}
	w.scheduleAll()
}

// TestBlockedEval_FindsADeletedVolumeWithAnOldPlan: its key has no row any more.
func TestBlockedEval_FindsADeletedVolumeWithAnOldPlan(t *testing.T) {
	w, held := nodeWithHeldVolumes(t, 1, 0)
	w.volume("w", "hostpath")
	w.submit(aJob("waits", structs.JobService, volume("w", structs.CSISingleNodeWriter, false)), "e")
	made := w.process(w.pendingOf("e"))
	if made.Blocked == nil {
		t.Fatal("n1 has free capacity")
	}
	w.release(held[0])
	w.deregisterVolume("v0", false)
	w.applyLate(made)
	w.scheduleAll()
}

// TestBlockedEval_FindsAVolumeDeletedByForce: with it goes a claim that waited, and took a place on a node.
func TestBlockedEval_FindsAVolumeDeletedByForce(t *testing.T) {
	w := newFixture(t)
	w.node(aNode("n1"), limitedPlugin(1), half("hostpath", structs.CSIKindController))
	w.volume("v", "hostpath")
	w.submit(aJob("a", structs.JobService, volume("v", structs.CSIMultiNodeMultipleWriter, false)), "a")
	w.scheduleAll()
	w.deregisterVolume("v", false)
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		WriteOptions: w.now(),
		Volumes: []*structs.CSIVolume{{
			ID: "v", Namespace: "default",
			CSIVolumeSpec:   structs.CSIVolumeSpec{Name: "v", PluginID: "hostpath"},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeCreating},
		}},
	})
	w.claim(w.allocs("a")[0]) // waits for the volume to be created
	w.volume("w", "hostpath")
	w.submit(aJob("b", structs.JobService, volume("w", structs.CSIMultiNodeMultipleWriter, false)), "b")
	w.scheduleAll()
	w.wantPlaced("b", "")
	w.deregisterVolume("v", true)
	w.scheduleAll()
	w.wantPlaced("b", "0@n1")
}

// TestBlockedEval_AfterAChangeOfTheJobsType: a service becomes a system job, and an evaluation from before,
// for one node, comes after.
func TestBlockedEval_AfterAChangeOfTheJobsType(t *testing.T) {
	w := newFixture(t)
	small := aNode("n2")
	small.NodeResources.CPU.CpuShares = 50
	w.node(aNode("n1"))
	w.node(small)
	w.submit(aJob("x", structs.JobService), "first")
	w.scheduleAll()
	w.status("n1", structs.NodeDown)
	w.status("n1", structs.NodeReady)
	w.submit(aJob("x", structs.JobSystem, func(j *structs.Job) {
		j.Priority = 90
	}), "second")
	w.scheduleAll()
	n := 0
	for range statetest.EvalsByStatus(w.s.Read(), structs.EvalBlocked) {
		n++
	}
	if n != 1 {
		t.Errorf("%d evaluations wait for capacity on n2, want 1", n)
	}
}
