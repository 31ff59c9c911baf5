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

// next returns the jobs of the allocations that move next, sorted.
func (f *fleet) next() (jobs []string) {
	for _, id := range Next(f.Store.Read(), f.Clock).Migrate {
		jobs = append(jobs, state.Alloc(f.Store.Read(), id).JobID)
	}
	slices.Sort(jobs)
	return jobs
}

func (f *fleet) wantNext(when string, want ...string) {
	f.T.Helper()
	if got := f.next(); !slices.Equal(got, want) {
		f.T.Fatalf("%s: %v move, want %v", when, got, want)
	}
}

// stuckDrain is the drain of n0, on which an allocation of web is to end and does not.
func stuckDrain(t *testing.T, spec structs.DrainSpec, edits ...func(*structs.TaskGroup)) *fleet {
	f := newFleet(t, 1)
	f.register("logs", structs.JobSystem, 1, edits...)
	f.register("web", structs.JobService, 1)
	f.Stuck[f.Allocs("web")[0].ID] = true
	f.drain("n0", spec)
	f.tick()
	f.tick()
	return f
}

func TestDrain_SystemJobsMoveAtTheDeadline(t *testing.T) {
	f := stuckDrain(t, structs.DrainSpec{Deadline: time.Minute})
	f.wantNext("before the deadline")
	f.Clock = f.Clock.Add(time.Minute)
	f.wantNext("after the deadline", "logs")
}

func TestDrain_PluginsWaitForOtherAllocations(t *testing.T) {
	f := stuckDrain(t, structs.DrainSpec{Deadline: time.Minute}, plugin)
	f.Clock = f.Clock.Add(time.Hour)
	f.wantNext("while another allocation runs")
	f.check("the plugin has left", slices.Contains(f.on("n0"), "logs"))
	clear(f.Stuck)
	f.until("the drain ends", func() bool { return !f.draining("n0") })
}

// A system job that somebody stops has to end, also if the drain ignores system jobs.
func TestDrain_WaitsForSystemJobsThatStop(t *testing.T) {
	f := newFleet(t, 1)
	f.register("logs", structs.JobSystem, 1)
	f.Stuck[f.Allocs("logs")[0].ID] = true
	schedtest.Do(f.Fleet, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "logs",
		Eval:         &structs.Evaluation{ID: "stop", JobID: "logs", Status: structs.EvalPending},
		WriteOptions: f.Now(),
	})
	f.tick()
	f.drain("n0", structs.DrainSpec{IgnoreSystemJobs: true})
	f.tick()
	f.check("the drain has ended", f.draining("n0"))
	clear(f.Stuck)
	f.until("the drain ends", func() bool { return !f.draining("n0") })
}

// The next allocation moves when the successor of the last one has run for min_healthy_time, and not while
// the last one is to be replaced.
func TestDrain_WaitsUntilASuccessorHasRunForLongEnough(t *testing.T) {
	f := newFleet(t, 1)
	f.register("web", structs.JobService, 2)
	f.Node("n1")
	f.drain("n0", structs.DrainSpec{})
	f.wantNext("at first", "web")
	f.takeStep()
	f.wantNext("before the first is replaced")
	f.until("the successor runs", func() bool {
		return slices.ContainsFunc(f.Allocs("web"), func(a *structs.Allocation) bool {
			return a.NodeID == "n1" && a.ClientStatus == structs.AllocRunning
		})
	})
	for range 9 {
		f.wantNext("while the successor is new")
		f.Clock = f.Clock.Add(time.Second)
	}
	f.Clock = f.Clock.Add(time.Second)
	f.wantNext("after min_healthy_time", "web")
}

// Each group of a job has its own pace.
func TestDrain_MovesGroupsByThemselves(t *testing.T) {
	f := newFleet(t, 1)
	job := schedtest.Job("web", structs.JobService, 2)
	other := *job.TaskGroups[0]
	other.Name = "h"
	job.TaskGroups = append(job.TaskGroups, &other)
	f.Register(job)
	f.tick()
	f.tick()
	f.Clock = f.Clock.Add(time.Minute)
	f.drain("n0", structs.DrainSpec{})
	f.wantNext("at first", "web", "web")
}

// After the deadline a service moves at once, whatever its group misses.
func TestDrain_ServicesMoveAtTheDeadline(t *testing.T) {
	f := newFleet(t, 1)
	f.register("web", structs.JobService, 3)
	f.drain("n0", structs.DrainSpec{Deadline: time.Minute})
	f.wantNext("before the deadline", "web")
	f.Clock = f.Clock.Add(time.Minute)
	f.wantNext("after the deadline", "web", "web", "web")
}

// Controllers of a plugin are a service: other nodes need them.
func TestDrain_PluginsOfServicesKeepTheirPace(t *testing.T) {
	f := newFleet(t, 3)
	f.register("controller", structs.JobService, 2, plugin, checked, func(g *structs.TaskGroup) {
		g.Constraints = []*structs.Constraint{{Operand: "distinct_hosts"}}
	})
	nodes := []string{}
	for _, a := range f.Allocs("controller") {
		nodes = append(nodes, a.NodeID)
		f.reportHealth(a, true)
	}
	for _, node := range nodes {
		f.drain(node, structs.DrainSpec{Deadline: time.Minute})
	}
	f.wantNext("before the deadline", "controller")
	f.takeStep()
	f.wantNext("while its group misses it")
	f.check("the reason is missing: "+f.reasons(nodes[0])+f.reasons(nodes[1]),
		strings.Contains(f.reasons(nodes[0])+f.reasons(nodes[1]), "at most 1 of group g may be missing"))
	f.Clock = f.Clock.Add(time.Minute)
	f.wantNext("after the deadline", "controller")
}

// A drain that ignores the plugins ends once they have unmounted the volumes of what has left, and not after
// its deadline.
func TestDrain_WaitsForVolumesWithoutItsPlugins(t *testing.T) {
	begin := func(spec structs.DrainSpec) (*fleet, *structs.Allocation) {
		f := newFleet(t, 2)
		f.register("pl", structs.JobSystem, 1, plugin)
		f.register("web", structs.JobService, 1)
		f.Volume("v")
		a := f.Allocs("web")[0]
		f.Claim(a, "v", structs.CSIMultiNodeMultipleWriter)
		spec.IgnoreSystemJobs = true
		f.drain(a.NodeID, spec)
		for range 20 {
			f.tick()
		}
		f.check("the drain has ended while the node has the volume", f.draining(a.NodeID))
		f.check("it names no volume: "+f.reasons(a.NodeID), strings.Contains(f.reasons(a.NodeID), "volume v"))
		return f, a
	}
	ended := func(f *fleet, node string) {
		f.T.Helper()
		f.until("the drain ends", func() bool { return !f.draining(node) })
	}
	f, a := begin(structs.DrainSpec{})
	f.Release(a, "v")
	ended(f, a.NodeID)

	f, a = begin(structs.DrainSpec{Deadline: time.Minute})
	ended(f, a.NodeID)

	f, a = begin(structs.DrainSpec{})
	schedtest.Do(f.Fleet, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{a.NodeID},
		Status:       structs.NodeDown,
		WriteOptions: f.Now(),
	})
	ended(f, a.NodeID)
}

// A node that comes back while it drains has lost its plugin. It gets the plugin back and lets go of its
// volumes, and its drain ends.
func TestDrain_EndsAfterItsNodeWasAway(t *testing.T) {
	f := newFleet(t, 1)
	f.register("pl", structs.JobSystem, 1, plugin)
	f.register("web", structs.JobService, 1)
	f.Volume("v")
	a := f.Allocs("web")[0]
	f.Claim(a, "v", structs.CSISingleNodeWriter)
	f.drain("n0", structs.DrainSpec{})
	for range 3 {
		f.tick()
	}
	for _, status := range []string{structs.NodeDown, structs.NodeReady} {
		schedtest.Do(f.Fleet, state.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs:      []string{"n0"},
			Status:       status,
			WriteOptions: f.Now(),
		})
		f.Clean("n0")
		f.Schedule()
	}
	for range 20 {
		f.tick()
	}
	back := slices.Equal(f.on("n0"), []string{"pl"})
	f.check("its drain has ended, or its plugin is not there", f.draining("n0") && back)
	f.Release(a, "v")
	f.until("the drain ends", func() bool { return !f.draining("n0") })
	f.check("something is left", len(f.on("n0")) == 0)
}

// An allocation that leaves its node by force is missing, so those on other draining nodes wait for its
// successor.
func TestDrain_CountsWhatLeavesByForceAtThePace(t *testing.T) {
	for _, forced := range []string{"n0", "n1"} {
		f := newFleet(t, 2)
		f.register("web", structs.JobService, 2, func(g *structs.TaskGroup) {
			g.Constraints = []*structs.Constraint{{Operand: "distinct_hosts"}}
		})
		f.Node("n2")
		f.Node("n3")
		f.tick()
		f.drain("n0", structs.DrainSpec{})
		f.drain("n1", structs.DrainSpec{})
		f.drain(forced, structs.DrainSpec{Deadline: -1})
		step := Next(f.Store.Read(), f.Clock)
		f.check("both leave at once", len(step.Migrate) == 1)
		f.until("the drains end", func() bool { return !f.draining("n0") && !f.draining("n1") })
	}
}
