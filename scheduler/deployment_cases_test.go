package scheduler

import (
	"testing"
	"time"

	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
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
	config := cluster.SchedulerConfiguration{SchedulerAlgorithm: cluster.AlgorithmSpread}
	do(d.fixture, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
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
	p, err := newPlanner(d.s.Read(), d.eval("web"), d.clock, options{enough: place.Enough})
	if err != nil {
		t.Fatal(err)
	}
	p.rollout = rollout.Find(p.outlook, p.outlook.Job)
	for _, a := range d.allocs("web") {
		if g := p.formerPlan(a); a.JobVersion == 0 && (g == nil || !g.Spec.Emptier) {
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

// An allocation of the new version that leaves with its node counts for the pace only if its successor has a
// place: another plan, which does not see it any more, would go on with the update.
func TestDeployment_GoesOnBesideALostAllocationWithoutAPlace(t *testing.T) {
	tests := map[string]func(*deployments, *structs.Allocation){
		"lost": func(d *deployments, a *structs.Allocation) { d.status(a.NodeID, structs.NodeDown) },
		"moved": func(d *deployments, a *structs.Allocation) {
			do(d.fixture, state.NodeEligibility, &structs.NodeEligibilityRequest{
				NodeID:      a.NodeID,
				Eligibility: structs.NodeIneligible,
			})
			do(d.fixture, state.AllocsMigrate, &structs.AllocsMigrateRequest{AllocIDs: []string{a.ID}})
		},
	}
	for name, leave := range tests {
		t.Run(name, func(t *testing.T) {
			d := &deployments{newFixture(t)}
			d.nodes("n1", "n2")
			d.job(aJob("web", structs.JobService, count(2), distinctHosts))
			d.run("web")
			d.job(aJob("web", structs.JobService, count(2), distinctHosts, cpu(200)))
			d.apply(d.process(d.eval("web")))
			for _, a := range d.allocs("web") {
				if a.JobVersion == 1 {
					leave(d, a)
				}
			}
			p := d.run("web") // a second plan changes nothing
			if left := d.allocs("web"); len(left) != 1 || left[0].JobVersion != 1 {
				t.Errorf("after %s, %d allocations are to run, the first of version %d", describe(p), len(left),
					left[0].JobVersion)
			}
		})
	}
}

// An allocation of an older version that has ended is not placed again while canaries that it excludes from
// their volume await their promotion: the update would wait for itself.
func TestFormerVersion_LeavesVolumesToCanaries(t *testing.T) {
	tests := map[string]func(*deployments, *structs.Allocation){
		"failed": func(d *deployments, a *structs.Allocation) { d.client(a, structs.AllocFailed) },
		"lost":   func(d *deployments, a *structs.Allocation) { d.status(a.NodeID, structs.NodeDown) },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			d := &deployments{newFixture(t)}
			d.pluginNodes("n1", "n2")
			d.volume("share", "hostpath")
			old := d.halfUpdated()
			end(d, old)
			d.plan()
			d.release(old)
			next := aJob("web", structs.JobService, count(2), cpu(300),
				constraints(&structs.Constraint{LTarget: "${node.unique.id}", RTarget: "n3", Operand: "="}),
				volume("share", structs.CSIMultiNodeReader, false))
			next.TaskGroups[0].Update.Canary = 1
			checkCanaryFits(t, d, next)
			d.job(next)
			d.clock = d.clock.Add(time.Hour)
			d.plan()
			d.status(old.NodeID, structs.NodeReady)
			d.plan()
			checkCanaryFits(t, d, next)
			d.pluginNodes("n3")
			d.plan()
			if row := state.ActiveDeployment(d.s.Read(), "default", "web"); len(row.Group("g").PlacedCanaries) != 1 {
				t.Errorf("there is no canary\n%s", d.describe())
			}
		})
	}
}

// An allocation of an older version that has ended is not placed again once a newer version has its index.
func TestFormerVersion_DoesNotReturnToATakenIndex(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.nodes("n1")
	d.job(aJob("web", structs.JobService))
	d.plan()
	d.client(d.allocs("web")[0], structs.AllocFailed)
	d.plan()
	d.clock = d.clock.Add(20 * time.Second)
	d.job(aJob("web", structs.JobService, cpu(200)))
	d.plan()
	d.mustPause()
	for a := range state.AllocsByJob(d.s.Read(), "default", "web") {
		if a.JobVersion == 1 {
			d.client(a, structs.AllocFailed)
		}
	}
	for range 2 {
		d.clock = d.clock.Add(20 * time.Second)
		d.plan()
	}
	if live := d.allocs("web"); len(live) != 1 || live[0].JobVersion != 1 {
		t.Errorf("want one allocation of version 1:\n%s", d.describe())
	}
}

func (d *deployments) mustPause() {
	row := state.ActiveDeployment(d.s.Read(), "default", "web")
	if err := d.operateOn(row.ID, "pause"); err != nil {
		d.t.Fatal(err)
	}
}

func checkCanaryFits(t *testing.T, d *deployments, j *structs.Job) {
	t.Helper()
	if why := state.CanaryConflict(d.s.Read(), j, j.TaskGroups); why != "" {
		t.Error(why)
	}
}

func (d *deployments) pluginNodes(ids ...string) {
	for _, id := range ids {
		d.node(aNode(id), half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController))
	}
}

// halfUpdated registers two versions of the job web, whose allocations fill half a node each, and pauses the
// update. It returns the allocation of the second version, which writes to the volume share.
func (d *deployments) halfUpdated() *structs.Allocation {
	d.job(aJob("web", structs.JobService, count(2), cpu(500)))
	d.plan()
	for _, a := range d.allocs("web") {
		d.health(a, true, structs.AllocRunning)
	}
	d.plan()
	d.job(aJob("web", structs.JobService, count(2), cpu(501),
		volume("share", structs.CSIMultiNodeMultipleWriter, false)))
	d.plan()
	d.mustPause()
	for _, a := range d.allocs("web") {
		if a.JobVersion == 1 {
			return a
		}
	}
	d.t.Fatal("no allocation of version 1")
	return nil
}

// A plan whose proposal timed out may be applied all the same, after the next plan from the same state. Each
// of them places a canary for one that is lost.
func TestDeployment_EndsSurplusCanaries(t *testing.T) {
	d := &deployments{fixture: newFixture(t)}
	d.nodes("n1", "n2", "n3")
	for _, version := range []string{"1", "2"} {
		d.job(aJob("web", structs.JobService, func(j *structs.Job) {
			j.TaskGroups[0].Update = new(structs.DefaultUpdateStrategy())
			j.TaskGroups[0].Update.Canary = 1
			j.TaskGroups[0].Tasks[0].Env = map[string]string{"VERSION": version}
		}))
		d.run("web")
	}
	d.status(d.labeled("0c").NodeID, structs.NodeDown)
	plans := []*structs.Plan{d.process(d.eval("web")), d.process(d.eval("web"))}
	for _, p := range plans {
		p.WriteOptions = d.now()
		do(d.fixture, state.PlanApply, p)
	}
	canaries := func() (n int) {
		for _, a := range d.allocs("web") {
			if a.DeploymentStatus.IsCanary() {
				n++
			}
		}
		return n
	}
	if n := canaries(); n != 2 {
		t.Fatalf("the plans have placed %d canaries, want one each", n)
	}
	d.run("web")
	if n := canaries(); n != 1 {
		t.Errorf("there are %d canaries, want 1", n)
	}
}

// Without a progress_deadline, a healthy allocation that fails and is not replaced fails its deployment:
// nothing else would end it.
func TestDeployment_EndsWithoutADeadline(t *testing.T) {
	for deadline, want := range map[time.Duration]string{
		0:         structs.DeploymentFailed,
		time.Hour: structs.DeploymentRunning,
	} {
		d := &deployments{newFixture(t)}
		d.nodes("n1")
		d.job(aJob("web", structs.JobService, count(2), func(j *structs.Job) {
			j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{}
			u := structs.DefaultUpdateStrategy()
			u.ProgressDeadline = deadline
			j.TaskGroups[0].Update = &u
		}))
		d.plan()
		first := d.allocs("web")[0]
		d.health(first, true, structs.AllocRunning)
		d.client(first, structs.AllocFailed)
		d.plan()
		row := state.LatestDeployment(d.s.Read(), "default", "web")
		failed := row.StatusDescription == structs.DeploymentFailedByAlloc
		if row.Status != want || failed != (deadline == 0) {
			t.Errorf("with the deadline %s the deployment is %s: %s", deadline, row.Status, row.StatusDescription)
		}
	}
}

// A canary takes the index of an allocation that it is to replace, not of one that continues in the new
// version.
func TestDeployment_CanaryReplacesNoneThatContinues(t *testing.T) {
	d := deployments{newFixture(t)}
	d.racks(map[string]int{"r1": 1, "r2": 1})
	d.job(aJob("web", structs.JobService, count(2), spreadOver("${meta.rack}", 100)))
	d.plan()
	stays := d.labeled("0")
	rack := &structs.Constraint{
		LTarget: "${meta.rack}",
		Operand: "=",
		RTarget: state.Node(d.s.Read(), stays.NodeID).Meta["rack"],
	}
	d.job(aJob("web", structs.JobService, count(2), inGroup(rack), func(j *structs.Job) {
		j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 1, Canary: 1, AutoPromote: true}
	}))
	for range 4 {
		d.plan()
		for _, a := range d.allocs("web") {
			d.health(a, true, structs.AllocRunning)
		}
	}
	if row := state.LatestDeployment(d.s.Read(), "default", "web"); row.Status != structs.DeploymentSuccessful {
		t.Errorf("the deployment is %s", row.Status)
	}
	if a := state.Alloc(d.s.Read(), stays.ID); a.Terminal() || len(d.allocs("web")) != 2 {
		t.Errorf("%s is to %s: %s", a.Name, a.DesiredStatus, a.DesiredDescription)
	}
}

// A failed allocation and its replacement count once for max_parallel.
func TestDeployment_CountsAReplacementOnce(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.nodes("n1", "n2", "n3")
	version := func(mhz int) {
		d.job(aJob("web", structs.JobService, count(6), cpu(mhz), func(j *structs.Job) {
			u := structs.DefaultUpdateStrategy()
			u.MaxParallel = 3
			j.TaskGroups[0].Update = &u
		}))
		d.plan()
	}
	version(100)
	for _, a := range d.allocs("web") {
		d.health(a, true, structs.AllocRunning)
	}
	version(200)
	failed := d.allocs("web")[0]
	for _, a := range d.allocs("web") {
		if a.JobVersion == 1 && a.ID != failed.ID {
			d.health(a, true, structs.AllocRunning)
		}
	}
	d.health(failed, false, structs.AllocFailed)
	d.clock = d.clock.Add(time.Hour)
	p := d.process(d.eval("web"))
	if failed.JobVersion != 1 || len(p.Place) != 3 || len(p.Stop) != 2 {
		t.Errorf("want one replacement and two updates:\n%s", describe(p))
	}
}

// A canary is for allocations that are replaced, not for those that the new count stops.
func TestDeployment_HasNoCanaryForASurplus(t *testing.T) {
	for n, canaries := range map[int]int{2: 0, 3: 1} {
		d := &deployments{newFixture(t)}
		d.nodes("n1", "n2", "n3", "n4")
		d.job(aJob("web", structs.JobService, count(3), distinctHosts))
		d.plan()
		leaves := &structs.Constraint{
			LTarget: "${node.unique.id}",
			Operand: "!=",
			RTarget: d.labeled("2").NodeID,
		}
		d.job(aJob("web", structs.JobService, count(n), distinctHosts, constraints(leaves), withCanaries(1)))
		d.plan()
		row := state.LatestDeployment(d.s.Read(), "default", "web")
		if got := row.Group("g").DesiredCanaries; got != canaries || len(d.allocs("web")) != n+canaries {
			t.Errorf("with a count of %d: %d canaries\n%s", n, got, d.describe())
		}
	}
}

// withCanaries gives the first group the default update with canaries.
func withCanaries(n int) func(*structs.Job) {
	return func(j *structs.Job) {
		u := structs.DefaultUpdateStrategy()
		u.Canary = n
		j.TaskGroups[0].Update = &u
	}
}

// A deployment that is paused at its promotion keeps the canary, also if the allocation that it replaces
// moved after the canary was placed.
func TestDeployment_KeepsAPromotedCanaryWhilePaused(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.nodes("n1", "n2")
	version := func(mhz, canaries int) {
		d.job(aJob("web", structs.JobService, cpu(mhz), withCanaries(canaries)))
		d.plan()
	}
	version(400, 0)
	old := d.allocs("web")[0]
	d.health(old, true, structs.AllocRunning)
	d.plan()
	version(401, 1)
	var canary *structs.Allocation
	for _, a := range d.allocs("web") {
		if a.ID != old.ID {
			canary = a
		}
	}
	d.health(canary, true, structs.AllocRunning)
	do(d.fixture, state.AllocsMigrate, &structs.AllocsMigrateRequest{
		AllocIDs:     []string{old.ID},
		WriteOptions: d.now(),
	})
	d.plan()
	deployment := state.LatestDeployment(d.s.Read(), "default", "web").ID
	for _, operation := range []string{"promote", "pause"} {
		if err := d.operateOn(deployment, operation); err != nil {
			t.Fatal(err)
		}
	}
	d.plan()
	if live := d.allocs("web"); len(live) != 1 || live[0].ID != canary.ID {
		t.Errorf("the canary %s is not kept: %s", canary.ID, d.describe())
	}
}
