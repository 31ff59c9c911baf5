package scheduler

import (
	"slices"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/state/unblock"
	"berth/structs"
)

// settling is a cluster whose agents and servers work until nothing is left to do.
type settling struct {
	*fixture
}

// register registers a job and evaluates it. It returns the plan.
func (x *settling) register(j *structs.Job) *structs.Plan {
	x.t.Helper()
	x.job(j)
	p := x.process(x.eval(j.ID))
	x.applyLate(p)
	x.checkPace()
	return p
}

// checkPace checks that no group of a service misses more allocations because of its update than it may:
// those stopped for a successor that has no place yet, and the successors that are not healthy yet.
func (x *settling) checkPace() {
	x.t.Helper()
	for j := range state.JobsFrom(x.s.Read(), structs.DefaultNamespace, "", state.Page{}) {
		for _, g := range j.TaskGroups {
			missed := x.missed(j, g)
			if j.Type == structs.JobService && g.Update.Rolls() && len(missed) > g.Update.MaxParallel {
				x.t.Fatalf("job %s misses %v, its pace is %d", j.ID, missed, g.Update.MaxParallel)
			}
		}
	}
}

func (x *settling) missed(j *structs.Job, g *structs.TaskGroup) (missed []string) {
	newest := map[string]*structs.Allocation{}
	stopped := map[string]bool{} // places of which a newer version has taken an allocation
	for a := range state.AllocsByJob(x.s.Read(), j.Namespace, j.ID) {
		if a.TaskGroup != g.Name {
			continue
		}
		if newest[a.Name] == nil || newest[a.Name].CreateIndex < a.CreateIndex {
			newest[a.Name] = a
		}
		stopped[a.Name] = stopped[a.Name] || a.StopCause == structs.StopReplaced
	}
	for name, a := range newest {
		waits := a.DeploymentID != "" && !a.DeploymentStatus.IsHealthy()
		placed := stopped[name] && a.CreateIndex > j.JobModifyIndex // and not updated in place
		if a.StopCause == structs.StopReplaced || placed && waits {
			missed = append(missed, name)
		}
	}
	return missed
}

// settle lets nodes and servers work until nothing is left to do.
func (x *settling) settle() {
	x.t.Helper()
	for range 400 {
		if !x.settleOnce() {
			return
		}
	}
	x.t.Fatal("the cluster does not settle")
}

// settleOnce does a part of what is left to do, and reports whether there was any.
func (x *settling) settleOnce() bool {
	before := x.index
	ready := slices.Collect(state.ReadyEvals(x.s.Read()))
	if len(ready) > 0 {
		x.plan(ready[0])
		return true
	}
	if unblock.Due(x.s.Read()) {
		do(x.fixture, state.EvalUpdate, &structs.EvalUpdateRequest{Wake: 1, WriteOptions: x.now()})
		return true
	}
	x.runAgents()
	later := slices.Collect(state.LaterEvals(x.s.Read()))
	if x.index == before && len(later) > 0 {
		x.clock = time.Unix(0, later[0].WaitUntil)
		x.plan(later[0])
	}
	return x.index > before
}

// plan processes an evaluation, and checks that no group misses more than its pace.
func (x *settling) plan(e *structs.Evaluation) {
	x.t.Helper()
	x.applyLate(x.process(e))
	x.checkPace()
}

// runAgents ends what is to end, and starts the rest once it has its volumes and waits for no other.
func (x *settling) runAgents() {
	tx := x.s.Read()
	for a := range state.AllocsFrom(tx, structs.DefaultNamespace, "", state.Page{}) {
		switch {
		case a.ClientTerminal():
		case a.ServerTerminal():
			x.client(a, structs.AllocComplete)
			if len(a.CSIVolumes) > 0 {
				x.release(a)
			}
		case a.ClientStatus == structs.AllocPending:
			x.startAlloc(a)
		}
	}
}

func (x *settling) startAlloc(a *structs.Allocation) {
	for id := range a.Awaits() {
		if other := state.Alloc(x.s.Read(), id); other != nil && !other.ClientTerminal() {
			return
		}
	}
	for _, u := range a.CSIVolumes {
		if csi.Claim(x.s.Read(), a.Namespace, u.VolumeID, a.ID) == nil {
			x.claim(a)
		}
		if csi.Claim(x.s.Read(), a.Namespace, u.VolumeID, a.ID).State != structs.ClaimGranted {
			return
		}
	}
	x.heal(a)
}

// heal reports an allocation as running and healthy.
func (x *settling) heal(a *structs.Allocation) {
	x.t.Helper()
	healthy := true
	do(x.fixture, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		WriteOptions: x.now(),
		Allocs: []*structs.AllocClientUpdate{{
			ID:               a.ID,
			ClientStatus:     structs.AllocRunning,
			DeploymentID:     a.DeploymentID,
			DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: &healthy},
		}},
	})
}
