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

func (f *fleet) check(what string, ok bool) {
	f.T.Helper()
	if !ok {
		f.T.Fatalf("%s; the drains did:\n%s", what, strings.Join(f.log, "\n"))
	}
}

func TestDrain_MovesAGroupOneByOne(t *testing.T) {
	f := newFleet(t, 3)
	f.register("web", structs.JobService, 6)
	f.drain("n0", structs.DrainSpec{})
	f.until("the drain ends", func() bool {
		missing := 6
		for a := range state.LiveAllocsByJob(f.Store.Read(), "default", "web") {
			if !a.Migrate && a.ClientStatus == structs.AllocRunning {
				missing--
			}
		}
		f.check("more than one is missing", missing <= 1)
		return !f.draining("n0")
	})
	f.check("allocations are left", len(f.on("n0")) == 0)
	n := state.Node(f.Store.Read(), "n0")
	f.check("the node is eligible", n.SchedulingEligibility == structs.NodeIneligible)
	f.check("the drain is not complete", n.LastDrain.Status == structs.DrainComplete)
}

func TestDrain_MovesAtThePaceOfTheGroup(t *testing.T) {
	f := newFleet(t, 1)
	f.register("web", structs.JobService, 6, func(g *structs.TaskGroup) {
		g.Migrate = &structs.MigrateStrategy{MaxParallel: 4, HealthCheck: structs.HealthTaskStates}
	})
	f.drain("n0", structs.DrainSpec{})
	if got := len(Next(f.Store.Read(), f.Clock).Migrate); got != 4 {
		t.Errorf("%d allocations move at once, want the 4 of max_parallel", got)
	}
}

func TestDrain_WaitsUntilASuccessorIsHealthy(t *testing.T) {
	f := newFleet(t, 2)
	f.register("web", structs.JobService, 2, func(g *structs.TaskGroup) {
		g.Constraints = []*structs.Constraint{{Operand: "distinct_hosts"}}
	})
	f.drain("n0", structs.DrainSpec{})
	for range 5 {
		f.tick()
	}
	f.check("the first leaves", len(f.on("n0")) == 0)
	f.register("api", structs.JobService, 2)
	f.drain("n1", structs.DrainSpec{})
	f.tick()
	f.check("an allocation leaves although its group has no other: "+f.reasons("n1"),
		slices.Contains(f.on("n1"), "web"))
	f.until("the reason is told", func() bool {
		return strings.Contains(f.reasons("n1"), "web: at most 1 of group g may be missing, "+
			"and 1 of 2 are healthy; its group waits for a place: node is draining")
	})
}

func TestDrain_AnUnhealthyAllocationMovesAtOnce(t *testing.T) {
	f := newFleet(t, 1)
	f.register("web", structs.JobService, 3)
	for a := range state.LiveAllocsByJob(f.Store.Read(), "default", "web") {
		f.Report(a, &structs.AllocClientUpdate{ClientStatus: structs.AllocPending})
	}
	f.drain("n0", structs.DrainSpec{})
	if got := len(Next(f.Store.Read(), f.Clock).Migrate); got != 3 {
		t.Errorf("%d allocations move, want all 3: nobody misses them", got)
	}
}

// A deployment has failed before it placed all allocations of a group, and places no more. The drain moves
// those that are there one after another, and does not wait for the others.
func TestDrain_DoesNotWaitForAllocationsOfAHeldGroup(t *testing.T) {
	f := newFleet(t, 2)
	f.register("web", structs.JobService, 3, func(g *structs.TaskGroup) {
		g.Constraints = []*structs.Constraint{{Operand: "distinct_hosts"}}
		g.Update = new(structs.DefaultUpdateStrategy())
	})
	fail := &structs.DeploymentStatusRequest{WriteOptions: f.Now()}
	fail.DeploymentID = state.LatestDeployment(f.Store.Read(), "default", "web").ID
	fail.Status = structs.DeploymentFailed
	schedtest.Do(f.Fleet, state.DeploymentStatus, fail)
	f.tick()
	f.Node("n2")
	f.Node("n3")
	f.drain("n0", structs.DrainSpec{})
	f.drain("n1", structs.DrainSpec{})
	if got := len(Next(f.Store.Read(), f.Clock).Migrate); got != 1 {
		t.Errorf("%d of 2 allocations move at once, want 1", got)
	}
	f.until("the drains end", func() bool { return !f.draining("n0") && !f.draining("n1") })
	f.check("web has lost an allocation", len(f.Allocs("web")) == 2)
}

func TestDrain_LetsBatchJobsEndUntilTheDeadline(t *testing.T) {
	f := newFleet(t, 2)
	f.register("sum", structs.JobBatch, 2)
	node := firstNode(f, "sum")
	f.drain(node, structs.DrainSpec{Deadline: time.Minute})
	reasons := f.reasons(node)
	deadline := timeOf(f.Clock.Add(time.Minute))
	f.check("the reason is missing: "+reasons,
		strings.Contains(reasons, "a batch job may end by itself until the deadline at "+deadline))
	f.tick()
	f.check("a batch job was moved", slices.Contains(f.on(node), "sum"))
	f.check("a watch writes the reason again: "+f.reasons(node), f.reasons(node) == reasons)
	f.Clock = f.Clock.Add(time.Minute)
	f.until("the drain ends", func() bool { return !f.draining(node) })
}

func firstNode(f *fleet, job string) string {
	for a := range state.LiveAllocsByJob(f.Store.Read(), "default", job) {
		return a.NodeID
	}
	f.T.Fatalf("job %s runs nowhere", job)
	return ""
}

func TestDrain_SystemJobsMoveAfterTheOthers(t *testing.T) {
	f := newFleet(t, 2)
	f.register("logs", structs.JobSystem, 1)
	f.register("web", structs.JobService, 3)
	f.drain("n0", structs.DrainSpec{})
	f.until("the drain ends", func() bool {
		jobs := f.on("n0")
		if slices.Contains(jobs, "web") {
			f.check("the system job left first", slices.Contains(jobs, "logs"))
		}
		return !f.draining("n0")
	})
	f.check("the system job is left", len(f.on("n0")) == 0)
}

func TestDrain_IgnoresSystemJobsOnRequest(t *testing.T) {
	f := newFleet(t, 2)
	f.register("logs", structs.JobSystem, 1)
	f.register("web", structs.JobService, 3)
	f.drain("n0", structs.DrainSpec{IgnoreSystemJobs: true})
	f.until("the drain ends", func() bool { return !f.draining("n0") })
	if got := f.on("n0"); !slices.Equal(got, []string{"logs"}) {
		t.Errorf("%v are left, want logs alone", got)
	}
}

// withVolume lets an allocation on the node claim a volume, and returns the allocation.
func (f *fleet) withVolume(node, job string) *structs.Allocation {
	f.T.Helper()
	f.Volume("vol")
	for a := range state.AllocsByNode(f.Store.Read(), node) {
		if a.JobID == job {
			f.Claim(a, "vol", structs.CSIMultiNodeMultipleWriter)
			return a
		}
	}
	f.T.Fatalf("job %s does not run on %s", job, node)
	return nil
}

func TestDrain_APluginWaitsForTheVolumesOfItsNode(t *testing.T) {
	f := newFleet(t, 2)
	f.register("csi", structs.JobSystem, 1, plugin)
	f.register("web", structs.JobService, 4)
	a := f.withVolume("n0", "web")
	f.drain("n0", structs.DrainSpec{Deadline: 20 * time.Second})
	for range 40 {
		f.tick()
	}
	f.check("the plugin left before the volume", slices.Equal(f.on("n0"), []string{"csi"}))
	f.check("the drain ended before the volume was released", f.draining("n0"))
	f.check("the reason is missing: "+f.reasons("n0"), strings.Contains(f.reasons("n0"),
		"a CSI plugin stops when the node has let go of 1 volume: volume vol of namespace default is claimed"))
	f.Release(a, "vol")
	f.until("the drain ends", func() bool { return !f.draining("n0") })
	f.check("the plugin is left", len(f.on("n0")) == 0)
}

// A drain with force waits for the end of all that may use the plugin, and then a while for the unmounts.
func TestDrain_WithForceStopsPluginsAfterTheOthers(t *testing.T) {
	for name, spec := range map[string]structs.DrainSpec{
		"at the deadline": {Deadline: 20 * time.Second, Force: true},
		"at once":         {Deadline: -1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2)
			f.register("csi", structs.JobSystem, 1, plugin)
			f.register("web", structs.JobService, 4)
			a := f.withVolume("n0", "web")
			f.Stuck[a.ID] = true
			f.drain("n0", spec)
			f.Clock = f.Clock.Add(20*time.Second + forcedAfter)
			f.tick()
			f.wantNext("while an allocation ends")
			f.check("it is told to leave by force", !strings.Contains(f.reasons("n0"), "force"))
			clear(f.Stuck)
			f.until("the allocation ends", func() bool { return slices.Equal(f.on("n0"), []string{"csi"}) })
			f.wantNext("while the node unmounts the volume")
			f.check("the reason is missing: "+f.reasons("n0"), strings.Contains(f.reasons("n0"),
				"is claimed by allocation "+structs.ShortID(a.ID)+"; it stops by force at "+
					timeOf(f.Clock.Add(forcedAfter))))
			f.Clock = f.Clock.Add(forcedAfter - time.Second)
			f.wantNext("soon before it stops by force")
			f.Clock = f.Clock.Add(time.Second)
			f.wantNext("when it stops by force", "csi")
			forced := Next(f.Store.Read(), f.Clock).ForcedPlugins["n0"]
			f.check("no record of the volumes: "+forced, strings.Contains(forced, "volume vol"))
			f.until("the drain ends", func() bool { return !f.draining("n0") })
		})
	}
}

// The time of a drain with force begins when it is ordered, also for a drain that has begun before.
func TestDrain_WithForceGivesNodesWithoutOthersTime(t *testing.T) {
	f := newFleet(t, 1)
	f.register("csi", structs.JobSystem, 1, plugin)
	f.register("web", structs.JobService, 1)
	f.withVolume("n0", "web")
	f.drain("n0", structs.DrainSpec{})
	f.until("the allocation ends", func() bool { return slices.Equal(f.on("n0"), []string{"csi"}) })
	f.Clock = f.Clock.Add(time.Hour)
	f.drain("n0", structs.DrainSpec{Deadline: -1})
	f.wantNext("at first")
	f.Clock = f.Clock.Add(forcedAfter)
	f.wantNext("later", "csi")
}

// A system job that the drain ignores keeps the plugin that it uses, also if the plugin's job is a service.
func TestDrain_WithForceLeavesPluginsOfIgnoredJobs(t *testing.T) {
	f := newFleet(t, 1)
	f.register("csi", structs.JobService, 1, plugin)
	f.register("log", structs.JobSystem, 1)
	a := f.withVolume("n0", "log")
	f.drain("n0", structs.DrainSpec{Deadline: -1, IgnoreSystemJobs: true})
	f.Clock = f.Clock.Add(time.Hour)
	f.wantNext("while the ignored job uses it")
	f.Release(a, "vol")
	f.wantNext("when nothing uses it", "csi")
}

// A drain with force takes no longer than another one if the node lets go of its volumes.
func TestDrain_WithForceStopsPluginsWithoutVolumesAtOnce(t *testing.T) {
	f := newFleet(t, 2)
	f.register("csi", structs.JobSystem, 1, plugin)
	f.register("web", structs.JobService, 4)
	a := f.withVolume("n0", "web")
	f.drain("n0", structs.DrainSpec{Deadline: -1})
	f.until("the allocation ends", func() bool { return slices.Equal(f.on("n0"), []string{"csi"}) })
	f.Release(a, "vol")
	f.wantNext("without volumes", "csi")
	f.check("it is recorded as forced", len(Next(f.Store.Read(), f.Clock).ForcedPlugins) == 0)
}

func TestDrain_NamesAnAllocationThatDoesNotEnd(t *testing.T) {
	f := newFleet(t, 2)
	f.register("web", structs.JobService, 1)
	node := firstNode(f, "web")
	for a := range state.LiveAllocsByJob(f.Store.Read(), "default", "web") {
		f.Stuck[a.ID] = true
	}
	f.drain(node, structs.DrainSpec{})
	for range 30 {
		f.tick()
	}
	f.check("the drain ended although an allocation runs", f.draining(node))
	f.check("the reason is missing: "+f.reasons(node),
		strings.Contains(f.reasons(node), "web: it is stopping: waits for task t"))
	clear(f.Stuck)
	f.until("the drain ends", func() bool { return !f.draining(node) })
}
