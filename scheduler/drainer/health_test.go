package drainer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// checked gives a group a migrate block: its nodes decide on the health of its allocations.
func checked(g *structs.TaskGroup) {
	g.Migrate = new(structs.DefaultMigrateStrategy())
}

// restart reports that the task of an allocation has restarted.
func (f *fleet) restart(a *structs.Allocation, ago time.Duration) {
	f.T.Helper()
	f.Report(a, &structs.AllocClientUpdate{
		ClientStatus: structs.AllocRunning,
		TaskStates: map[string]*structs.TaskState{"t": {
			State:       structs.TaskRunning,
			StartedAt:   f.Clock.Add(-time.Hour),
			LastRestart: f.Clock.Add(-ago),
		}},
	})
}

func (f *fleet) reportHealth(a *structs.Allocation, healthy bool) {
	f.T.Helper()
	f.Report(a, &structs.AllocClientUpdate{
		ClientStatus:     structs.AllocRunning,
		DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: &healthy},
	})
}

// A service that has just started loses no more than another: its allocations run, although nobody knows yet
// whether they are healthy.
func TestDrain_NewAllocationsLeaveOneByOne(t *testing.T) {
	for name, edits := range map[string][]func(*structs.TaskGroup){
		"by their health": {checked},
		"by their tasks":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1)
			f.Register(schedtest.Job("web", structs.JobService, 10, edits...))
			f.tick()
			f.tick()
			f.drain("n0", structs.DrainSpec{})
			f.wantNext("when they are new")
			f.Clock = f.Clock.Add(10 * time.Second)
			f.Tick()
			f.wantNext("when they are healthy", "web")
		})
	}
}

// The checks of a successor fail. The group misses it, so no other allocation leaves, also when its node
// reports that it is unhealthy. When they pass again, the next one leaves.
func TestDrain_WaitsForTheChecksOfASuccessor(t *testing.T) {
	f := newFleet(t, 2)
	f.register("web", structs.JobService, 4, checked)
	f.Failing["web"] = true
	f.drain("n0", structs.DrainSpec{})
	f.tick()
	for range 60 {
		f.tick()
	}
	f.check("another allocation left", len(f.on("n0")) == 1)
	f.check("the reason is missing: "+f.reasons("n0"),
		strings.Contains(f.reasons("n0"), "on node n1 is running, but not known to be healthy yet"))
	i := slices.IndexFunc(f.Allocs("web"), func(a *structs.Allocation) bool {
		return !a.DeploymentStatus.IsKnown()
	})
	f.reportHealth(f.Allocs("web")[i], false)
	f.tick()
	f.check("another allocation left", len(f.on("n0")) == 1)
	f.check("the reason is missing: "+f.reasons("n0"),
		strings.Contains(f.reasons("n0"), "on node n1 is unhealthy"))
	f.reportHealth(f.Allocs("web")[i], true)
	f.wantNext("when the successor is healthy after all", "web")
}

// An unhealthy allocation on a node that drains moves at once, although its tasks run.
func TestDrain_AnAllocationWithFailingChecksMovesAtOnce(t *testing.T) {
	f := newFleet(t, 1)
	f.Failing["web"] = true
	f.register("web", structs.JobService, 3, checked)
	f.reportHealth(f.Allocs("web")[0], false)
	f.reportHealth(f.Allocs("web")[1], true)
	f.reportHealth(f.Allocs("web")[2], true)
	f.drain("n0", structs.DrainSpec{})
	f.wantNext("with one that is unhealthy", "web")
	f.check("another one moves",
		Next(f.Store.Read(), f.Clock).Migrate[0] == f.Allocs("web")[0].ID)
}

// An allocation of which only a sidecar runs does not count for its group.
func TestDrain_NeedsAllTasks(t *testing.T) {
	f := newFleet(t, 2)
	withSidecar := func(g *structs.TaskGroup) {
		sidecar := *g.Tasks[0]
		sidecar.Name = "proxy"
		sidecar.Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePrestart, Sidecar: true}
		g.Tasks = append(g.Tasks, &sidecar)
	}
	f.register("web", structs.JobService, 2, withSidecar)
	f.drain("n0", structs.DrainSpec{})
	report := func(a *structs.Allocation, main string) {
		running := &structs.TaskState{State: structs.TaskRunning, StartedAt: f.Clock.Add(-time.Minute)}
		f.Report(a, &structs.AllocClientUpdate{
			ClientStatus: structs.AllocRunning,
			TaskStates: map[string]*structs.TaskState{
				"proxy": running,
				"t":     {State: main, StartedAt: running.StartedAt},
			},
		})
	}
	for _, a := range f.Allocs("web") {
		main := structs.TaskRunning
		if a.NodeID == "n1" {
			main = structs.TaskPending
		}
		report(a, main)
	}
	f.wantNext("while the main task of the other one waits")
	for _, a := range f.Allocs("web") {
		report(a, structs.TaskRunning)
	}
	f.wantNext("when it runs", "web")
}

// The states of the tasks decide where an operator decides on the health. A task that has restarted begins
// anew, and one that restarts again and again makes no drain wait.
func TestDrain_LooksAtTheTasksWithoutAReport(t *testing.T) {
	f := newFleet(t, 1)
	f.register("web", structs.JobService, 3, checked, func(g *structs.TaskGroup) {
		g.Update = new(structs.DefaultUpdateStrategy())
		g.Update.HealthCheck = structs.HealthManual
	})
	f.drain("n0", structs.DrainSpec{})
	f.wantNext("with three healthy ones", "web")
	f.restart(f.Allocs("web")[0], time.Second)
	f.wantNext("with one that has restarted")
	f.Clock = f.Clock.Add(9 * time.Second)
	f.wantNext("when it runs for long enough", "web")
	f.Clock = f.Clock.Add(5 * time.Minute)
	f.restart(f.Allocs("web")[0], time.Second)
	f.wantNext("with one that restarts again and again", "web")
	f.check("another one moves",
		Next(f.Store.Read(), f.Clock).Migrate[0] == f.Allocs("web")[0].ID)
}

// Long after the deadline of the health the tasks decide.
func TestDrain_DoesNotWaitForAReportThatDoesNotCome(t *testing.T) {
	f := newFleet(t, 1)
	f.Failing["web"] = true
	f.register("web", structs.JobService, 1, checked)
	f.drain("n0", structs.DrainSpec{})
	f.Clock = f.Clock.Add(structs.DefaultMigrateStrategy().HealthyDeadline - time.Minute)
	f.wantNext("soon after the deadline of its health")
	f.Clock = f.Clock.Add(time.Minute)
	f.wantNext("long after it", "web")
}

// An operator decides on the health in such a deployment, and not on that of the drain.
func TestDrain_DoesNotWaitForAnOperator(t *testing.T) {
	f := newFleet(t, 1)
	f.register("web", structs.JobService, 2, checked, func(g *structs.TaskGroup) {
		g.Update = new(structs.DefaultUpdateStrategy())
		g.Update.HealthCheck = structs.HealthManual
	})
	for _, a := range f.Allocs("web") {
		f.check("it is in no deployment", a.DeploymentID != "")
	}
	f.drain("n0", structs.DrainSpec{})
	f.wantNext("with tasks that run", "web")
}

// The health in a deployment counts as that of a drain: the first allocations of a job have no other.
func TestDrain_UsesTheHealthOfADeployment(t *testing.T) {
	f := newFleet(t, 1)
	f.register("web", structs.JobService, 2, checked, func(g *structs.TaskGroup) {
		g.Update = new(structs.DefaultUpdateStrategy())
	})
	f.drain("n0", structs.DrainSpec{})
	f.wantNext("while it is not known")
	for _, a := range f.Allocs("web") {
		f.Report(a, &structs.AllocClientUpdate{
			ClientStatus:     structs.AllocRunning,
			DeploymentID:     a.DeploymentID,
			DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(true)},
		})
	}
	f.wantNext("when they are healthy", "web")
	d := state.LatestDeployment(f.Store.Read(), "default", "web")
	f.check("the deployment is not active", d.Active())
}
