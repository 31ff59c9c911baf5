package scheduler

import (
	"testing"

	"berth/state"
	"berth/structs"
)

// heldWithSpread returns a job whose version 0 has a spread and runs, while the deployment of version 1 is
// paused. The nodes are alike.
func heldWithSpread(t *testing.T) *deployments {
	t.Helper()
	d := &deployments{newFixture(t)}
	d.nodes("n1", "n2")
	d.job(aJob("web", structs.JobService, count(2), spreadOver("${meta.rack}", 50)))
	d.plan()
	for _, a := range d.allocs("web") {
		d.health(a, true, structs.AllocRunning)
	}
	d.plan()
	d.job(aJob("web", structs.JobService, count(2), cpu(200), spreadOver("${meta.rack}", 50)))
	d.apply(d.process(d.eval("web")))
	if err := d.operateOn(state.LatestDeployment(d.s.Read(), "default", "web").ID, "pause"); err != nil {
		t.Fatal(err)
	}
	return d
}

// An allocation of an older version is placed again although its version has a spread.
func TestFormerVersion_MayHaveASpread(t *testing.T) {
	d := heldWithSpread(t)
	var moved *structs.Allocation
	for _, a := range d.allocs("web") {
		if a.JobVersion == 0 {
			moved = a
		}
	}
	do(d.fixture, state.AllocStop, &structs.AllocStopRequest{AllocID: moved.ID, WriteOptions: d.now()})
	d.plan()
	next := state.Alloc(d.s.Read(), state.Alloc(d.s.Read(), moved.ID).NextAllocation)
	if next == nil || next.JobVersion != 0 {
		t.Fatalf("the successor is %+v, want one of version 0", next)
	}
}

// An allocation of an older version is placed by the algorithm of the cluster.
func TestFormerVersion_UsesTheAlgorithm(t *testing.T) {
	d := &deployments{newFixture(t)}
	config := structs.SchedulerConfiguration{SchedulerAlgorithm: structs.AlgorithmSpread}
	do(d.fixture, state.SchedulerConfigSet, &structs.SchedulerConfigRequest{Config: config})
	d.nodes("n1", "n2")
	d.job(aJob("web", structs.JobService))
	d.plan()
	d.health(d.allocs("web")[0], true, structs.AllocRunning)
	d.plan()
	d.job(aJob("web", structs.JobService, cpu(200), func(j *structs.Job) {
		j.TaskGroups[0].Update = new(structs.DefaultUpdateStrategy())
		j.TaskGroups[0].Update.Canary = 1
	}))
	d.apply(d.process(d.eval("web")))
	p, err := newPlanner(d.s.Read(), d.eval("web"), d.clock, options{enough: enough})
	if err != nil {
		t.Fatal(err)
	}
	p.decide()
	for _, a := range d.allocs("web") {
		if g := p.formerPlan(a); a.JobVersion == 0 && (g == nil || !g.emptier) {
			t.Errorf("the plan of version 0 is %+v, want one that prefers the emptier node", g)
		}
	}
}

// The plan that stops surplus canaries also ends the deployment, although the stops change its counts: no
// other evaluation follows.
func TestDeployment_EndsWithThePlanThatStopsItsSurplus(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.nodes("n1")
	d.job(aJob("web", structs.JobService))
	d.plan()
	d.health(d.allocs("web")[0], true, structs.AllocRunning)
	d.plan()
	d.job(aJob("web", structs.JobService, cpu(200), func(j *structs.Job) {
		j.TaskGroups[0].Update = new(structs.DefaultUpdateStrategy())
		j.TaskGroups[0].Update.Canary = 2
	}))
	d.plan()
	for _, a := range d.allocs("web") {
		if a.JobVersion == 1 {
			d.health(a, true, structs.AllocRunning)
		}
	}
	id := state.LatestDeployment(d.s.Read(), "default", "web").ID
	if err := d.operateOn(id, "promote"); err != nil {
		t.Fatal(err)
	}
	d.apply(d.process(d.eval("web")))
	row := state.Deployment(d.s.Read(), id)
	if got := len(d.allocs("web")); got != 1 || row.Status != structs.DeploymentSuccessful {
		t.Errorf("%d allocations, and the deployment is %s; want 1, successful", got, row.Status)
	}
}
