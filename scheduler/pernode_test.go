package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/scheduler/place"
	"berth/state"
	"berth/state/statetest"
	"berth/structs"
)

func TestSystemJob_RunsOnEveryNode(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	other := aNode("n3")
	other.Attributes["kernel.name"] = "windows"
	w.node(other)
	w.job(aJob("log", structs.JobSystem, constraints(&structs.Constraint{
		LTarget: "${attr.kernel.name}",
		RTarget: "linux",
		Operand: "=",
	})))
	p := w.run("log")
	w.wantPlaced("log", "0@n1 0@n2")
	if p.Eval.FailedTGAllocs != nil || p.Blocked != nil {
		t.Errorf("a node outside the job's constraints counts as a failure: %s", rejections(p, "g"))
	}
	w.nodes("n4")
	pending := 0
	for e := range statetest.EvalsByStatus(w.s.Read(), structs.EvalPending) {
		if e.JobID == "log" && e.NodeID == "n4" {
			pending++
			w.apply(w.process(e))
		}
	}
	w.wantPlaced("log", "0@n1 0@n2 0@n4")
	if pending != 1 {
		t.Errorf("%d evaluations for the new node", pending)
	}
}

func TestSystemJob_ThatFitsNowhereGivesReasons(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	w.job(aJob("log", structs.JobSystem, constraints(&structs.Constraint{
		LTarget: "${attr.kernel.name}",
		RTarget: "plan9",
		Operand: "=",
	})))
	if got := rejections(w.run("log"), "g"); got != "constraint: ${attr.kernel.name} = plan9 (2)" {
		t.Errorf("rejections: %s", got)
	}
}

func TestSystemJob_WithoutCapacityOnSomeNodes(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	for _, id := range []string{"n2", "n3"} {
		n := aNode(id)
		n.NodeResources.CPU.CpuShares = 50
		w.node(n)
	}
	w.job(aJob("log", structs.JobSystem))
	p := w.run("log")
	w.wantPlaced("log", "0@n1")
	if got := rejections(p, "g"); got != "resources: cpu exhausted (2)" || p.Eval.QueuedAllocations["g"] != 2 ||
		p.Blocked == nil {
		t.Errorf("rejections: %s, %+v", got, p.Eval)
	}
	if m := p.Eval.FailedTGAllocs["g"]; m.NodesExhausted != 2 || m.DimensionExhausted["cpu"] != 2 ||
		m.NodesEvaluated != 3 {
		t.Errorf("metric: %+v", m)
	}
}

func TestSystemJob_FollowsItsNodes(t *testing.T) {
	w := running(t, aJob("log", structs.JobSystem), "n1", "n2")
	w.status("n1", structs.NodeDown)
	p := w.run("log")
	if len(p.Stop) != 1 ||
		p.Stop[0].ClientStatus != structs.AllocLost ||
		len(p.Place) != 0 {
		t.Fatalf("down: %s", describe(p))
	}
	w.wantPlaced("log", "0@n2")
	w.status("n1", structs.NodeReady)
	w.run("log")
	w.wantPlaced("log", "0@n1 0@n2")

	do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:       "n1",
		Eligibility:  structs.NodeIneligible,
		WriteOptions: w.now(),
	})
	w.run("log")
	w.wantPlaced("log", "0@n1 0@n2") // the running allocations continue

	w.job(aJob("log", structs.JobSystem, cpu(200)))
	w.run("log")
	w.wantPlaced("log", "0@n1 0@n2")
	for _, a := range w.allocs("log") {
		if updated := a.JobVersion == 1; updated != (a.NodeID == "n2") {
			t.Errorf("node %s runs version %d", a.NodeID, a.JobVersion)
		}
	}

	w.job(aJob("log", structs.JobSystem, cpu(200), func(j *structs.Job) {
		j.Datacenters = []string{"dc7"}
	}))
	w.run("log")
	w.wantPlaced("log", "")
}

// TestReconcileNodes_StopsAllocationsOnNodesThatAreGone: only those of the group.
func TestReconcileNodes_StopsAllocationsOnNodesThatAreGone(t *testing.T) {
	w := running(t, aJob("log", structs.JobSystem, groups(2)), "n1", "n2", "n3")
	p, err := newPlanner(w.s.Read(), w.eval("log"), w.clock, options{enough: place.Enough})
	if err != nil {
		t.Fatal(err)
	}
	p.liveAllocs()
	all := p.outlook.AllNodes()
	g := p.addGroup(p.outlook.Job.TaskGroups[1])
	g.Filter(all)
	p.reconcileNodes(g, []*structs.Node{all[0], all[2]})
	a := state.Alloc(p.outlook, p.outlook.Plan.Stop[0].AllocID)
	if len(p.outlook.Plan.Stop) != 1 || a.NodeID != "n2" || a.TaskGroup != "g1" || len(p.placements) > 0 {
		t.Errorf("stopped %+v, placements %+v", p.outlook.Plan.Stop, p.placements)
	}
}

func TestSystemJob_AFailedAllocationReturnsWithAGrowingDelay(t *testing.T) {
	w := running(t, aJob("log", structs.JobSystem), "n1")
	for _, delay := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		w.client(w.allocs("log")[0], structs.AllocFailed)
		p := w.run("log")
		if len(p.Followups) != 1 ||
			p.Followups[0].WaitUntil != w.clock.Add(delay).UnixNano() {
			t.Fatalf("after %s: %s", delay, describe(p))
		}
		w.clock = w.clock.Add(delay)
		w.apply(w.process(p.Followups[0]))
		w.wantPlaced("log", "0@n1")
	}
}

func TestSystemJob_AStoppedAllocationReturns(t *testing.T) {
	w := running(t, aJob("log", structs.JobSystem), "n1", "n2")
	old := w.allocs("log")[0]
	do(w, state.AllocStop, &structs.AllocStopRequest{AllocID: old.ID, WriteOptions: w.now()})
	p := w.run("log")
	if len(p.Place) != 1 ||
		p.Place[0].NodeID != old.NodeID ||
		p.Place[0].PreviousAllocation != old.ID {
		t.Errorf("plan: %s", describe(p))
	}
}

func TestSysBatch_RunsOncePerNode(t *testing.T) {
	w := running(t, aJob("scan", structs.JobSysBatch), "n1", "n2")
	allocs := w.allocs("scan")
	w.client(allocs[0], structs.AllocComplete)
	w.client(allocs[1], structs.AllocFailed)
	w.clock = w.clock.Add(time.Hour)
	if p := w.run("scan"); len(p.Place) != 0 {
		t.Errorf("plan: %s", describe(p))
	}
	w.nodes("n3")
	w.run("scan")
	w.wantPlaced("scan", "0@n3")
	w.job(aJob("scan", structs.JobSysBatch, cpu(150)))
	w.run("scan")
	w.wantPlaced("scan", "0@n1 0@n2 0@n3")
}

func TestSystemJob_CountZeroHasNone(t *testing.T) {
	w := running(t, aJob("log", structs.JobSystem), "n1")
	w.job(aJob("log", structs.JobSystem, count(0)))
	if p := w.run("log"); len(p.Stop) != 1 || p.Eval.FailedTGAllocs != nil {
		t.Errorf("plan: %s", describe(p))
	}
}

func TestReconcile_AJobThatChangesItsType(t *testing.T) {
	w := running(t, aJob("x", structs.JobService, count(3)), "n1", "n2")
	w.job(aJob("x", structs.JobSystem))
	w.run("x")
	w.wantPlaced("x", "0@n1 0@n2")
	w.job(aJob("x", structs.JobService, count(2)))
	w.run("x")
	if got := w.placed("x"); !strings.HasPrefix(got, "0@") || !strings.Contains(got, " 1@") {
		t.Errorf("placed %s", got)
	}
}

// TestNodeEval_LooksAtItsNodeOnly: allocations of other nodes stay as they are until another evaluation reads
// them.
func TestNodeEval_LooksAtItsNodeOnly(t *testing.T) {
	w := running(t, aJob("log", structs.JobSystem), "n1", "n2", "n3")
	w.status("n1", structs.NodeDown)
	w.status("n2", structs.NodeDown)
	one := func(node string) *structs.Plan {
		e := w.eval("log")
		e.NodeID = node
		p := w.process(e)
		w.apply(p)
		return p
	}
	p := one("n1")
	if len(p.Stop) != 1 ||
		state.Alloc(w.s.Read(), p.Stop[0].AllocID).NodeID != "n1" ||
		p.Eval.FailedTGAllocs != nil {
		t.Fatalf("plan: %s", describe(p))
	}
	w.wantPlaced("log", "0@n2 0@n3")
	w.status("n1", structs.NodeReady)
	p = one("n1")
	if len(p.Place) != 1 || len(p.Stop) != 0 || p.Place[0].Metrics.NodesEvaluated != 1 {
		t.Fatalf("plan: %s", describe(p))
	}
	w.wantPlaced("log", "0@n1 0@n2 0@n3")
	p = one("gone")
	if len(p.Place)+len(p.Stop) != 0 || p.Blocked != nil {
		t.Fatalf("plan: %s", describe(p))
	}
	one("n2")
	w.wantPlaced("log", "0@n1 0@n3")
	w.client(w.allocs("log")[0], structs.AllocFailed)
	p = one("n1")
	if len(p.Followups) != 1 || p.Followups[0].NodeID != "n1" {
		t.Fatalf("plan: %s", describe(p))
	}
	w.clock = w.clock.Add(time.Minute)
	w.apply(w.process(p.Followups[0]))
	w.wantPlaced("log", "0@n1 0@n3")
}

// TestNodeEval_KeepsTheWaitForOtherNodes.
func TestNodeEval_KeepsTheWaitForOtherNodes(t *testing.T) {
	w := newFixture(t)
	small := aNode("n1")
	small.NodeResources.CPU.CpuShares = 50
	w.node(small)
	w.job(aJob("log", structs.JobSystem))
	w.run("log")
	w.nodes("n2")
	for _, e := range slices.Collect(statetest.EvalsByStatus(w.s.Read(), structs.EvalPending)) {
		if e.NodeID == "n2" {
			w.apply(w.process(e))
		}
	}
	w.wantPlaced("log", "0@n2")
	if got := state.JobSummary(w.s.Read(), state.Job(w.s.Read(), structs.DefaultNamespace,
		"log")).Summary["g"].Queued; got != 1 {
		t.Errorf("%d are queued", got)
	}
	waiting := 0
	for e := range state.EvalsByJob(w.s.Read(), structs.DefaultNamespace, "log") {
		if !e.Terminal() && e.TriggeredBy == structs.TriggerQueuedAllocs {
			waiting++
		}
	}
	if waiting != 1 {
		t.Errorf("%d evaluations wait for capacity on n1", waiting)
	}
}

// A system job changes from one reader to many writers while a node without an allocation has become
// feasible: the old allocation, which the same plan replaces, must not keep the new one from that node.
func TestSystemJob_ReplacesBeforeItPlacesOnMoreNodes(t *testing.T) {
	w := newFixture(t)
	w.storage("n2")
	w.volume("share", "hostpath")
	w.job(aJob("scan", structs.JobSystem, volume("share", structs.CSISingleNodeReader, false)))
	w.run("scan")
	w.wantPlaced("scan", "0@n2")
	w.storage("n1")
	w.job(aJob("scan", structs.JobSystem, volume("share", structs.CSIMultiNodeMultipleWriter, false)))
	w.run("scan")
	w.wantPlaced("scan", "0@n1 0@n2")
}
