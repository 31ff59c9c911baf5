package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/defaults"
)

func TestService_PlacesItsCount(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2", "n3")
	w.job(aJob("web", structs.JobService, count(3)))
	p := w.run("web")
	w.wantPlaced("web", "0@n1 1@n2 2@n3") // apart: anti-affinity
	a := p.Place[0]
	if a.Name != "web.g[0]" || a.Resources.CPU != 100 ||
		a.EvalID != p.Eval.ID ||
		len(a.Metrics.ScoreMetaData) != 3 || a.NodeName != "name-n1" {
		t.Errorf("allocation: %+v", a)
	}
	if p.Eval.Status != structs.EvalComplete || p.Blocked != nil ||
		p.Eval.QueuedAllocations["g"] != 0 {
		t.Errorf("evaluation: %+v", p.Eval)
	}
}

func TestBinpack_FillsANodeBeforeTheNext(t *testing.T) {
	w := running(t, aJob("first", structs.JobService,
		constraints(&structs.Constraint{
			LTarget: "${node.unique.id}",
			RTarget: "n2",
			Operand: "=",
		})), "n1",
		"n2", "n3")
	w.job(aJob("second", structs.JobService))
	w.run("second")
	w.wantPlaced("second", "0@n2")
}

func TestService_FollowsItsCount(t *testing.T) {
	w := running(t, aJob("web", structs.JobService, count(4)), "n1", "n2")
	before := w.allocs("web")

	w.job(aJob("web", structs.JobService, count(2)))
	p := w.run("web")
	w.wantPlaced("web", "0@"+before[0].NodeID+" 1@"+before[1].NodeID)
	if len(p.Stop) != 2 || len(p.Update) != 2 || len(p.Place) != 0 {
		t.Errorf("down: %s", describe(p))
	}
	if a := w.allocs("web"); a[0].ID != before[0].ID || a[0].JobVersion != 1 {
		t.Errorf("a change of only the count restarts allocations or keeps their version: %+v", a[0])
	}

	w.job(aJob("web", structs.JobService, count(3)))
	w.run("web")
	if a := w.allocs("web"); len(a) != 3 || a[2].Index() != 2 {
		t.Errorf("up: %s", w.placed("web"))
	}

	w.job(aJob("web", structs.JobService, count(0)))
	w.run("web")
	w.wantPlaced("web", "")
}

func TestService_ReusesFreedIndexes(t *testing.T) {
	w := running(t, aJob("web", structs.JobService, count(3)), "n1")
	do(w, state.AllocStop, &structs.AllocStopRequest{AllocID: w.allocs("web")[1].ID, WriteOptions: w.now()})
	p := w.run("web")
	w.wantPlaced("web", "0@n1 1@n1 2@n1")
	if len(p.Place) != 1 || p.Place[0].Index() != 1 ||
		p.Place[0].PreviousAllocation != p.Stop[0].AllocID {
		t.Errorf("plan: %s", describe(p))
	}
}

func TestUpdate_ReplacesOrKeeps(t *testing.T) {
	for _, c := range []struct {
		name        string
		edit        func(*structs.Job)
		destructive bool
	}{
		{"priority", func(j *structs.Job) { j.Priority = 70 }, false},
		{"count", count(2), false},
		{"reschedule policy", func(j *structs.Job) {
			j.TaskGroups[0].ReschedulePolicy = defaults.ReschedulePolicy(structs.JobBatch)
		}, false},
		{"constraint that the node meets", constraints(&structs.Constraint{
			LTarget: "${attr.kernel.name}",
			RTarget: "linux",
			Operand: "=",
		}), false},
		{"constraint that the node does not meet", constraints(&structs.Constraint{
			LTarget: "${node.unique.id}",
			RTarget: "n1",
			Operand: "!=",
		}), true},
		{"datacenters", func(j *structs.Job) { j.Datacenters = []string{"dc2"} }, true},
		{"kill_timeout", func(j *structs.Job) { j.TaskGroups[0].Tasks[0].KillTimeout = time.Minute }, false},
		{"env", func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"A": "b"} }, true},
		{"config", func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "x"} }, true},
		{"resources", cpu(200), true},
		{"meta", func(j *structs.Job) { j.Meta = map[string]string{"a": "b"} }, true},
		{"ephemeral_disk", sticky, true},
		{"volume", volume("db", structs.CSISingleNodeWriter, false), true},
		{"csi_plugin", func(j *structs.Job) {
			j.TaskGroups[0].Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "p", Type: structs.CSIPluginNode}
		}, true},
		{"another task", func(j *structs.Job) {
			j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &structs.Task{Name: "u", Driver: "exec"})
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			n2 := aNode("n2")
			n2.Datacenter = "dc2"
			w.node(aNode("n1"), half("hostpath", structs.CSIKindNode))
			w.node(n2, half("hostpath", structs.CSIKindNode))
			w.volume("db", "hostpath")
			w.job(aJob("web", structs.JobService))
			w.run("web")
			old := w.allocs("web")[0]
			w.job(aJob("web", structs.JobService, c.edit))
			p := w.run("web")
			stopped := len(p.Stop) == 1 && p.Stop[0].AllocID == old.ID
			if stopped != c.destructive {
				t.Errorf("destructive: %v, want %v: %s", stopped, c.destructive, describe(p))
			}
			if now := w.allocs("web")[0]; now.JobVersion != 1 || c.destructive && now.PreviousAllocation != old.ID {
				t.Errorf("after the update: %+v", now)
			}
		})
	}
}

func TestUpdate_ComparesNumbersByValue(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	config := func(n any) func(*structs.Job) {
		return func(j *structs.Job) {
			j.Priority = 50 + len(j.ID)
			j.TaskGroups[0].Tasks[0].Config = map[string]any{"n": n, "l": []any{n}}
		}
	}
	w.job(aJob("web", structs.JobService, config(int64(3))))
	w.run("web")
	w.job(aJob("web", structs.JobService, config(float64(3))))
	if p := w.run("web"); len(p.Stop) > 0 {
		t.Errorf("replaced: %s", describe(p))
	}
}

func TestUpdate_WithoutCapacityKeepsTheOldOne(t *testing.T) {
	w := running(t, aJob("web", structs.JobService, cpu(800)), "n1")
	old := w.allocs("web")[0]
	w.job(aJob("web", structs.JobService, cpu(1100)))
	p := w.run("web")
	if len(p.Stop)+len(p.Place) != 0 || w.allocs("web")[0].ID != old.ID {
		t.Errorf("plan: %s", describe(p))
	}
	if got := rejections(p, "g"); got != "resources: cpu exhausted (1)" {
		t.Errorf("rejections: %s", got)
	}
	w.job(aJob("web", structs.JobService, cpu(900))) // fits when the old one is gone
	w.run("web")
	w.wantPlaced("web", "0@n1")
}

func TestJob_StoppedStopsAllocations(t *testing.T) {
	w := running(t, aJob("web", structs.JobService, count(2)), "n1")
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", WriteOptions: w.now()})
	if p := w.run("web"); len(p.Stop) != 2 || p.Stop[0].Description != "job is stopped" {
		t.Errorf("plan: %s", describe(p))
	}
	w.wantPlaced("web", "")
	w.job(aJob("web", structs.JobService, count(1)))
	w.run("web")
	w.wantPlaced("web", "0@n1")
}

func TestJob_RemovedGroupIsStopped(t *testing.T) {
	w := running(t, aJob("web", structs.JobService, count(2)), "n1")
	w.job(aJob("web", structs.JobService, func(j *structs.Job) {
		j.TaskGroups[0].Name = "other"
	}))
	if p := w.run("web"); len(p.Stop) != 2 || len(p.Place) != 1 {
		t.Errorf("plan: %s", describe(p))
	}
}

func TestLostNode_ReplacesAllocations(t *testing.T) {
	w := running(t, aJob("web", structs.JobService, count(2)), "n1", "n2")
	w.wantPlaced("web", "0@n1 1@n2")
	w.status("n1", structs.NodeDown)
	p := w.run("web")
	w.wantPlaced("web", "0@n2 1@n2")
	if len(p.Stop) != 1 ||
		p.Stop[0].ClientStatus != structs.AllocLost ||
		p.Place[0].PreviousAllocation != p.Stop[0].AllocID {
		t.Errorf("plan: %s", describe(p))
	}
}

func TestLostNode_LosesStoppingAllocations(t *testing.T) {
	w := running(t, aJob("web", structs.JobService), "n1")
	a := w.allocs("web")[0]
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", WriteOptions: w.now()})
	w.run("web")
	w.status("n1", structs.NodeDown)
	w.run("web")
	if got := state.Alloc(w.s.Read(), a.ID).ClientStatus; got != structs.AllocLost {
		t.Errorf("client status %q", got)
	}
}

func TestDrain_MovesTheAllocationsThatItsLoopNames(t *testing.T) {
	w := newFixture(t)
	w.node(aNode("n1"))
	do(w, state.NodeDrain, &structs.NodeDrainRequest{NodeID: "n1", DrainSpec: &structs.DrainSpec{}})
	j := w.job(aJob("web", structs.JobService))
	p, err := newPlanner(w.s.Read(), w.eval("web"), w.clock, options{enough: place.Enough})
	if err != nil {
		t.Fatal(err)
	}
	a := &structs.Allocation{
		ID:            "a",
		JobID:         "web",
		TaskGroup:     "g",
		NodeID:        "n1",
		DesiredStatus: structs.AllocDesiredRun,
		ClientStatus:  structs.AllocRunning,
	}
	g := p.addGroupOf(j, j.TaskGroups[0])
	n := state.Node(p.outlook, "n1")
	if s := p.classify(g, a, n); s.Action != rollout.Keep {
		t.Errorf("before its turn the allocation has the action %d: %s", s.Action, s.Why)
	}
	a.Migrate = true
	if s := p.classify(g, a, n); s.Action != rollout.Move ||
		s.Why != "moved by the drain of its node" {
		t.Errorf("got %+v", s)
	}
}

func TestBatch_IsNotRunAgain(t *testing.T) {
	w := running(t, aJob("sum", structs.JobBatch, count(2)), "n1")
	w.client(w.allocs("sum")[0], structs.AllocComplete)
	if p := w.run("sum"); len(p.Place) != 0 {
		t.Errorf("plan: %s", describe(p))
	}
	w.wantPlaced("sum", "1@n1")
}

func TestBlockedEval_WaitsForCapacity(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.job(aJob("web", structs.JobService, count(4), cpu(400)))
	p := w.run("web")
	w.wantPlaced("web", "0@n1 1@n1")
	m := p.Eval.FailedTGAllocs["g"]
	if m.CoalescedFailures != 1 || m.NodesExhausted != 1 ||
		m.DimensionExhausted["cpu"] != 1 ||
		p.Eval.QueuedAllocations["g"] != 2 {
		t.Errorf("metric: %+v", m)
	}
	if !slices.Equal(blockedOn(p), []string{structs.WakeCapacity}) ||
		p.Eval.BlockedEval != p.Blocked.ID {
		t.Errorf("blocked: %+v", p.Blocked)
	}
	blocked := w.evals(structs.EvalBlocked)
	if len(blocked) != 1 {
		t.Fatalf("%d evaluations are blocked", len(blocked))
	}
	w.run("web") // another evaluation of the job keeps the one that waits
	if again := w.evals(structs.EvalBlocked); len(again) != 1 || again[0].ID != blocked[0].ID {
		t.Errorf("blocked: %+v", again)
	}

	small := aNode("n2")
	small.NodeResources.CPU.CpuShares = 500
	w.node(small)
	unblocked := w.evals(structs.EvalPending)
	if len(unblocked) != 1 || unblocked[0].ID != blocked[0].ID {
		t.Fatalf("unblocked: %+v", unblocked)
	}
	p = w.process(unblocked[0])
	w.apply(p)
	w.wantPlaced("web", "0@n1 1@n1 2@n2")
	if p.Blocked != nil || p.Eval.Status != structs.EvalBlocked ||
		p.Eval.ID != blocked[0].ID {
		t.Errorf("unblocked evaluation does not wait itself: %+v", p.Eval)
	}
	w.nodes("n3")
	p = w.process(w.evals(structs.EvalPending)[0])
	w.apply(p)
	if len(w.allocs("web")) != 4 ||
		p.Eval.Status != structs.EvalComplete ||
		len(w.evals(structs.EvalBlocked)) != 0 {
		t.Errorf("at the end: %+v", p.Eval)
	}
}

func (w *fixture) evals(status string) []*structs.Evaluation {
	var out []*structs.Evaluation
	for e := range statetest.EvalsByStatus(w.s.Read(), status) {
		if e.JobID != "other" && e.TriggeredBy != structs.TriggerNodeUpdate {
			out = append(out, e)
		}
	}
	return out
}

func TestRejections_NameFilterAndReason(t *testing.T) {
	w := newFixture(t)
	for id, edit := range map[string]func(*structs.Node){
		"n01": func(n *structs.Node) { n.SchedulingEligibility = structs.NodeIneligible },
		"n02": func(n *structs.Node) { n.Datacenter = "dc2" },
		"n03": func(n *structs.Node) { n.NodePool = "gpu" },
		"n04": func(n *structs.Node) { n.Drivers = nil },
		"n05": func(n *structs.Node) {
			n.Drivers["exec"].Healthy, n.Drivers["exec"].HealthDescription = false, "no cgroups"
		},
		"n06": func(n *structs.Node) { n.Attributes["kernel.name"] = "windows"; n.NodeClass = "big" },
		"n07": func(n *structs.Node) { n.Attributes["kernel.name"] = "windows" },
		"n08": func(n *structs.Node) { n.NodeResources.Memory.MemoryMB = 50 },
		"n09": func(n *structs.Node) { n.NodeResources.CPU.CpuShares = 50 },
	} {
		n := aNode(id)
		edit(n)
		w.node(n)
	}
	w.job(aJob("web", structs.JobService,
		func(j *structs.Job) {
			j.Datacenters = []string{"dc1", "dc3*"}
		},
		constraints(&structs.Constraint{
			LTarget: "${attr.kernel.name}",
			RTarget: "linux",
			Operand: "=",
		})))
	p := w.run("web")
	want := strings.Join([]string{
		"constraint: ${attr.kernel.name} = linux (2)",
		"datacenter: datacenter dc2 is not one of dc1, dc3* (1)",
		"driver: driver exec is not on this node (1)",
		"driver: driver exec is unhealthy here (no cgroups) (1)",
		"eligibility: node is not eligible for scheduling (1)",
		"node-pool: node pool gpu is not default (1)",
		"resources: cpu exhausted (1)",
		"resources: memory exhausted (1)",
	}, "\n")
	if got := rejections(p, "g"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	m := p.Eval.FailedTGAllocs["g"]
	if m.NodesEvaluated != 6 || m.NodesFiltered != 4 ||
		m.NodesExhausted != 2 || m.NodesInPool != 7 ||
		m.NodesAvailable["dc1"] != 6 ||
		m.ClassFiltered["big"] != 1 || m.ConstraintFiltered["${attr.kernel.name} = linux"] != 2 {
		t.Errorf("metric: %+v", m)
	}
}

func TestFailure_WithoutNodes(t *testing.T) {
	for _, kind := range []string{structs.JobService, structs.JobSystem} {
		w := newFixture(t)
		w.job(aJob("web", kind))
		if p := w.run("web"); p.Eval.FailedTGAllocs["g"] == nil || p.Blocked == nil {
			t.Errorf("%s: %+v", kind, p.Eval)
		}
	}
}

func TestDistinctHosts_OfAJob(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	w.job(aJob("web", structs.JobService, count(3),
		constraints(&structs.Constraint{Operand: structs.ConstraintDistinctHosts, RTarget: "true"})))
	p := w.run("web")
	w.wantPlaced("web", "0@n1 1@n2")
	if got := rejections(p,
		"g"); got != "distinct-hosts: distinct_hosts: the node has an allocation of the job (2)" {
		t.Errorf("rejections: %s", got)
	}
}

func TestDistinctHosts_OfAGroupCountsTheGroup(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	w.job(aJob("web", structs.JobService, count(3),
		inGroup(&structs.Constraint{Operand: structs.ConstraintDistinctHosts}), groups(2)))
	p := w.run("web")
	w.wantPlaced("web", "0@n1 1@n2 0@n1 1@n2")
	for _, group := range []string{"g0", "g1"} {
		want := "distinct-hosts: distinct_hosts: the node has an allocation of the group (2)"
		if got := rejections(p, group); got != want {
			t.Errorf("rejections of %s: %s", group, got)
		}
	}
}

func TestProcess_RejectsAnEmptyEvaluation(t *testing.T) {
	_, err := Process(state.New().Read(), &structs.Evaluation{ID: "e"}, time.Now())
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("error: %v", err)
	}
	w := newFixture(t)
	if p := w.process(w.eval("unknown")); len(p.Stop)+len(p.Place) != 0 ||
		p.Eval.Status != structs.EvalComplete {
		t.Errorf("plan: %+v", p)
	}
}

// The bounds of a count do not concern the tasks: they continue.
func TestReconcile_KeepsTasksWhenTheirScalingChanges(t *testing.T) {
	w := running(t, aJob("web", structs.JobService, count(2)), "n1")
	w.job(aJob("web", structs.JobService, count(2), func(j *structs.Job) {
		j.TaskGroups[0].Scaling = &structs.ScalingPolicy{Max: new(int64(4))}
	}))
	p := w.run("web")
	if len(p.Place) != 0 || len(p.Update) != 2 {
		t.Errorf("the plan is %s", describe(p))
	}
}

// A stop tells its cause as data: the state and the commands decide by it.
func TestProcess_GivesStopsTheirCauses(t *testing.T) {
	w := running(t, aJob("a", structs.JobService), "n1")
	w.status("n1", structs.NodeDown)
	p := w.process(w.eval("a"))
	if len(p.Stop) != 1 || p.Stop[0].Cause != structs.StopNodeDown ||
		p.Stop[0].ClientStatus != structs.AllocLost {
		t.Errorf("got stops %+v", p.Stop)
	}
}
