package state_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
)

func TestPlan_Places(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	j := w.Job(aJob("j", structs.JobService, "p"))
	w.Alloc("old", "j", "n1")
	p := w.PlanOf(j, "new@n1")
	p.Place[0].Job, p.Place[0].PreviousAllocation = j, "old"
	p.Stop = []*structs.PlanStop{
		{AllocID: "old", Description: "replaced", Cause: structs.StopReplaced},
		{AllocID: "unknown"},
	}
	p.Blocked = &structs.Evaluation{
		ID:            "blocked",
		JobID:         "j",
		Status:        structs.EvalBlocked,
		SnapshotIndex: w.Index + 1,
		BlockedOn:     []string{structs.WakeVolume("default", "v")},
	}
	p.Followups = []*structs.Evaluation{{
		ID:        "later",
		JobID:     "j",
		WaitUntil: 99,
	}}
	p.Eval.FailedTGAllocs = map[string]*structs.AllocMetric{"g": {}}
	do(w, state.PlanApply, p)
	tx := w.Store.Read()
	a, old := state.Alloc(tx, "new"), state.Alloc(tx, "old")
	if a.Job != nil || a.DesiredStatus != structs.AllocDesiredRun ||
		a.ClientStatus != structs.AllocPending ||
		a.AllocModifyIndex != w.Index ||
		a.NodeName != "name-n1" || a.EvalID != p.Eval.ID || a.CreateTime != p.Now || a.Resources.CPU != 100 ||
		len(a.CSIPlugins) != 1 {
		t.Errorf("the allocation is %+v", a)
	}
	if old.NextAllocation != "new" || old.DesiredStatus != structs.AllocDesiredStop ||
		old.DesiredDescription != "replaced" || old.StopCause != structs.StopReplaced ||
		old.AllocModifyIndex != w.Index ||
		old.ClientStatus != structs.AllocPending {
		t.Errorf("the previous allocation is %+v", old)
	}
	w.WantEval(p.Eval.ID, structs.EvalComplete)
	w.WantEval("blocked", structs.EvalBlocked)
	w.WantEval("later", structs.EvalPending)
	row := state.Alloc(tx, "new")
	do(w, state.PlanApply, p) // proposed twice, because the first answer was lost
	if state.Alloc(w.Store.Read(), "new") != row || state.Alloc(w.Store.Read(), "old") != old {
		t.Error("the plan was executed twice")
	}
}

// TestPlan_CountsItsPlacementsOnce: a plan that names an allocation twice places it once. Its deployment
// counts each allocation and lists the canaries in the order of the plan.
func TestPlan_CountsItsPlacementsOnce(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	j := w.Job(aJob("j", structs.JobService))
	p := w.PlanOf(j, "c@n1", "a@n1", "c@n1", "b@n1", "d@unknown")
	p.Deployment = &structs.Deployment{
		ID:         "d1",
		JobID:      "j",
		JobVersion: j.Version,
		Status:     structs.DeploymentRunning,
		TaskGroups: map[string]*structs.DeploymentState{"g": {DesiredTotal: 3, DesiredCanaries: 2}},
	}
	for i, a := range p.Place {
		a.DeploymentID = "d1"
		if i < 3 {
			a.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: true}
		}
	}
	do(w, state.PlanApply, p)
	g := state.Deployment(w.Store.Read(), "d1").Group("g")
	if g.PlacedAllocs != 3 || strings.Join(g.PlacedCanaries, " ") != "c a" {
		t.Errorf("the deployment counts %d allocations and the canaries %v", g.PlacedAllocs, g.PlacedCanaries)
	}
	if got := w.Placed("a", "b", "c", "d"); got != "a b c" {
		t.Errorf("placed %q", got)
	}
	if s := state.Job(w.Store.Read(), "default", "j").Status; s != structs.JobRunning {
		t.Errorf("the job is %s", s)
	}
}

func TestPlan_IsRejectedPerNode(t *testing.T) {
	for _, c := range []struct {
		name   string
		plan   func(w *fixture, j *structs.Job) *structs.Plan
		placed string
		says   string
	}{
		{"all fit", func(w *fixture, j *structs.Job) *structs.Plan {
			return w.PlanOf(j, "x@n1", "y@n2")
		}, "x y", ""},
		{"a node that does not exist", func(w *fixture, j *structs.Job) *structs.Plan {
			return w.PlanOf(j, "x@n1", "y@n9")
		}, "x", "node n9 rejected the plan: it does not exist"},
		{"a node that is down", func(w *fixture, j *structs.Job) *structs.Plan {
			w.Status(structs.NodeDown, "n1")
			return w.PlanOf(j, "x@n1", "y@n2", "z@n1")
		}, "y", "node n1 rejected the plan: it is down"},
		{"a node that is not eligible", func(w *fixture, j *structs.Job) *structs.Plan {
			do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
				NodeID: "n1", Eligibility: structs.NodeIneligible,
			})
			return w.PlanOf(j, "x@n1", "y@n2")
		}, "y", "ineligible"},
		{"a node without capacity for one of two", func(w *fixture, j *structs.Job) *structs.Plan {
			p := w.PlanOf(j, "x@n1", "y@n1", "z@n2")
			p.Place[1].Resources = &structs.Resources{CPU: 3950}
			return p
		}, "z", "no cpu left"},
		{"a stop of the plan frees capacity", func(w *fixture, j *structs.Job) *structs.Plan {
			p := w.PlanOf(j, "x@n1")
			p.Place[0].Resources = &structs.Resources{CPU: 4000, MemoryMB: 4000}
			p.Place[0].AwaitedAllocations = []string{"there"}
			p.Stop = []*structs.PlanStop{{AllocID: "there"}}
			return p
		}, "x", ""},
		{"the capacity of one that the plan does not stop", func(w *fixture, j *structs.Job) *structs.Plan {
			p := w.PlanOf(j, "x@n1")
			p.Place[0].Resources = &structs.Resources{CPU: 4000, MemoryMB: 4000}
			p.Place[0].AwaitedAllocations = []string{"there"}
			return p
		}, "", "no cpu left"},
		{"a placement that does not wait for its capacity", func(w *fixture, j *structs.Job) *structs.Plan {
			p := w.PlanOf(j, "x@n1")
			p.Place[0].Resources = &structs.Resources{CPU: 4000, MemoryMB: 4000}
			p.Stop = []*structs.PlanStop{{AllocID: "there"}}
			return p
		}, "", "no capacity left at once"},
		{"a placement that waits for its capacity", func(w *fixture, j *structs.Job) *structs.Plan {
			p := w.PlanOf(j, "x@n1", "y@n1")
			p.Place[0].Resources = &structs.Resources{CPU: 2000, MemoryMB: 3950}
			p.Place[1].Resources = &structs.Resources{CPU: 2000, MemoryMB: 50}
			p.Place[0].AwaitedAllocations = []string{"there"}
			p.Place[1].AwaitedAllocations = []string{"there"}
			p.Stop = []*structs.PlanStop{{AllocID: "there"}}
			return p
		}, "x y", ""},
		{"a running allocation uses capacity", func(w *fixture, j *structs.Job) *structs.Plan {
			p := w.PlanOf(j, "x@n1")
			p.Place[0].Resources = &structs.Resources{CPU: 100, MemoryMB: 3950}
			return p
		}, "", "no memory left"},
		{"a version that is gone", func(w *fixture, j *structs.Job) *structs.Plan {
			p := w.PlanOf(j, "x@n1")
			p.Place[0].JobVersion = 7
			return p
		}, "", "version 7 of job j"},
		{"a job that has changed", func(w *fixture, j *structs.Job) *structs.Plan {
			p := w.PlanOf(j, "x@n1")
			p.Stop = []*structs.PlanStop{{AllocID: "there"}}
			w.Job(jobWithSalt("j", 5))
			return p
		}, "", "the job has changed"},
		{"a job that is gone", func(w *fixture, j *structs.Job) *structs.Plan {
			do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", Purge: true})
			return w.PlanOf(j, "x@n1")
		}, "", "the job is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.Node("n1")
			w.Node("n2")
			w.Alloc("there", "j", "n1")
			p := c.plan(w, state.Job(w.Store.Read(), "default", "j"))
			p.Stop = append(p.Stop, &structs.PlanStop{AllocID: "not there"})
			do(w, state.PlanApply, p)
			got := w.Placed("x", "y", "z")
			if got != c.placed {
				t.Errorf("placed %q, want %q", got, c.placed)
			}
			e := state.Eval(w.Store.Read(), p.Eval.ID)
			if again := e.Status == structs.EvalPending; again != (c.says != "") ||
				!strings.Contains(e.StatusDescription, c.says) {
				t.Errorf("the evaluation is %s: %s, want %q", e.Status, e.StatusDescription, c.says)
			}
			there := state.Alloc(w.Store.Read(), "there")
			if strings.HasPrefix(c.says, "the job has changed") && there.ServerTerminal() {
				t.Error("a stale plan stopped an allocation")
			}
		})
	}
}

func TestPlan_RejectedReplacementKeepsTheAllocation(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("old", "j", "n1")
	p := w.PlanOf(state.Job(w.Store.Read(), "default", "j"), "new@n1")
	p.Place[0].Resources = &structs.Resources{CPU: 9999}
	p.Stop = []*structs.PlanStop{{AllocID: "old"}}
	do(w, state.PlanApply, p)
	if state.Alloc(w.Store.Read(), "old").ServerTerminal() {
		t.Error("the allocation was stopped without a replacement")
	}
}

// A plan of a job with all_at_once has no effect if one node rejects it: no placement and stop on other
// nodes, no deployment and no other evaluation.
func TestPlan_AllAtOnceIsAppliedAsAWhole(t *testing.T) {
	for _, whole := range []bool{false, true} {
		w := newFixture(t)
		w.Node("n1")
		w.Node("n2")
		w.Alloc("old", "other", "n1")
		j := aJob("j", structs.JobService)
		j.AllAtOnce = whole
		j = w.Job(j)
		p := w.PlanOf(j, "a@n1", "b@n2", "c@unknown")
		p.Stop = []*structs.PlanStop{{AllocID: "old"}}
		p.Deployment = &structs.Deployment{
			ID:         "d1",
			JobID:      "j",
			JobVersion: j.Version,
			Status:     structs.DeploymentRunning,
		}
		p.Followups = []*structs.Evaluation{{ID: "later", JobID: "j", Status: structs.EvalPending}}
		do(w, state.PlanApply, p)
		tx := w.Store.Read()
		want := "a b"
		if whole {
			want = ""
		}
		if got := w.Placed("a", "b", "c"); got != want {
			t.Errorf("all at once %v: placed %q, want %q", whole, got, want)
		}
		if state.Alloc(tx, "old").ServerTerminal() == whole {
			t.Errorf("all at once %v: the allocation that the plan stops is %s", whole, state.Alloc(tx, "old").DesiredStatus)
		}
		if (state.Deployment(tx, "d1") == nil) != whole || (state.Eval(tx, "later") == nil) != whole {
			t.Errorf("all at once %v: deployment %+v, evaluation %+v", whole, state.Deployment(tx, "d1"), state.Eval(tx, "later"))
		}
		w.WantEval(p.Eval.ID, structs.EvalPending)
		if why := state.Eval(tx, p.Eval.ID).StatusDescription; strings.Contains(why, "all_at_once") != whole ||
			!strings.Contains(why, "node unknown rejected the plan") {
			t.Errorf("all at once %v: the evaluation says %q", whole, why)
		}
		if !whole {
			continue
		}
		again := w.PlanOf(j, "a@n1", "b@n2")
		do(w, state.PlanApply, again)
		if got := w.Placed("a", "b"); got != "a b" {
			t.Errorf("the plan that fits places %q", got)
		}
	}
}

func TestPlan_UpdatesInPlace(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("a", "j", "n1")
	j := w.Job(jobWithSalt("j", 1))
	p := w.Plan(j)
	p.Update = []*structs.PlanUpdate{{
		AllocID:        "a",
		SetJobVersion:  true,
		JobVersion:     1,
		FollowupEvalID: "f",
	},
		{AllocID: "unknown"}}
	do(w, state.PlanApply, p)
	a := state.Alloc(w.Store.Read(), "a")
	if a.JobVersion != 1 || a.FollowupEvalID != "f" ||
		a.AllocModifyIndex != w.Index {
		t.Errorf("the allocation is %+v", a)
	}
	for name, p := range map[string]*structs.Plan{
		"no evaluation":       {},
		"a place that is nil": {Eval: &structs.Evaluation{ID: "e"}, Place: []*structs.Allocation{nil}},
		"a stop that is nil":  {Eval: &structs.Evaluation{ID: "e"}, Stop: []*structs.PlanStop{nil}},
	} {
		t.Run(name, func(t *testing.T) {
			wantKind(t, try(w, state.PlanApply, p), structs.KindInvalid)
		})
	}
}

func TestAllocs_FreeCapacityAtTheirEnd(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"stopped": func(w *fixture) { w.Stop("a", "") },
		"lost":    func(w *fixture) { w.Stop("a", structs.AllocLost) },
		"ended":   func(w *fixture) { w.Client("n1", "a", structs.AllocComplete) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Node("n1")
			w.Alloc("a", "j", "n1")
			w.Client("n1", "a", structs.AllocRunning)
			w.Blocked("waits", structs.WakeCapacity)
			end(w)
			w.WantEval("blocked-waits", structs.EvalPending)
		})
	}
}

func TestAllocClientUpdate_StoresReports(t *testing.T) {
	const pending, running, complete, failed, lost = structs.AllocPending, structs.AllocRunning,
		structs.AllocComplete, structs.AllocFailed, structs.AllocLost
	for _, c := range []struct {
		said, want string // in order; the servers report "lost"
		evaluated  string // after the last
	}{
		{"running", running, ""},
		{"running running", running, ""},
		{"running pending", pending, ""},
		{"running failed", failed, "alloc-failure j"},
		{"running complete", complete, "alloc-stop j"},
		{"failed running", failed, ""},
		{"complete failed", complete, ""},
		{"failed complete", failed, ""},
		{"lost running", lost, ""},
		{"lost complete", complete, ""},
	} {
		w := newFixture(t)
		w.Node("n1")
		w.Alloc("a", "j", "n1")
		for _, s := range strings.Fields(c.said) {
			if s == lost {
				w.Stop("a", lost)
				continue
			}
			w.Client("n1", "a", s)
		}
		a := state.Alloc(w.Store.Read(), "a")
		if a.ClientStatus != c.want {
			t.Errorf("after a report of %s: got %s, want %s", c.said, a.ClientStatus, c.want)
		}
		got := strings.Join(w.evaluated(), " ")
		if got != c.evaluated {
			t.Errorf("%s: evaluated %q, want %q", c.said, got, c.evaluated)
		}
	}
}

// A report without the network is that of an agent that has just restarted.
func TestAllocClientUpdate_KeepsTheNetwork(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("a", "j", "n1")
	for _, reported := range []string{"10.0.0.1", "", "10.0.0.2"} {
		u := &structs.AllocClientUpdate{ID: "a", ClientStatus: structs.AllocRunning}
		want := "10.0.0.1"
		if reported != "" {
			u.NetworkStatus = &structs.AllocNetworkStatus{Address: reported}
			want = reported
		}
		do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			NodeID:       "n1",
			WriteOptions: w.Now(),
			Allocs:       []*structs.AllocClientUpdate{u},
		})
		if got := state.Alloc(w.Store.Read(), "a").NetworkStatus; got == nil || got.Address != want {
			t.Errorf("after a report of %q: %+v", reported, got)
		}
	}
}

func TestAllocClientUpdate_IgnoresOtherNodes(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Node("n2")
	w.Alloc("a", "j", "n1")
	w.Alloc("b", "j", "n1")
	w.Client("n2", "a", structs.AllocFailed)
	w.Client("n1", "unknown", structs.AllocFailed)
	if a := state.Alloc(w.Store.Read(), "a"); a.ClientStatus != structs.AllocPending {
		t.Errorf("another node said so: %s", a.ClientStatus)
	}
	err := try(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:   "n1",
		SecretID: "guessed",
		Allocs:   []*structs.AllocClientUpdate{{ID: "a", ClientStatus: "failed"}},
	})
	wantKind(t, err, structs.KindDenied)
	row := state.Alloc(w.Store.Read(), "a")
	w.Client("n1", "a", structs.AllocPending)
	if state.Alloc(w.Store.Read(), "a") != row {
		t.Error("a report without changes was put")
	}
	do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       "n1",
		WriteOptions: w.Now(),
		Allocs: []*structs.AllocClientUpdate{
			{
				ID:           "a",
				ClientStatus: "failed",
				TaskStates:   map[string]*structs.TaskState{"t": {State: structs.TaskDead}},
			},
			{ID: "b", ClientStatus: "failed"},
			nil,
		},
	})
	w.wantEvaluated("alloc-failure j") // one for both
	if a := state.Alloc(w.Store.Read(), "a"); a.AllocModifyIndex != row.AllocModifyIndex ||
		a.TaskStates["t"].State != structs.TaskDead {
		t.Errorf("the report changed the index of the servers, or was not stored: %+v", a)
	}
}

func TestAllocStop_EvaluatesTheJob(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("a", "j", "n1")
	stop := func(id string) error {
		return try(w, state.AllocStop, &structs.AllocStopRequest{
			AllocID: id,
			Eval: &structs.Evaluation{
				ID:          "e",
				TriggeredBy: structs.TriggerAllocStop,
			},
			WriteOptions: w.Now(),
		})
	}
	wantKind(t, stop("a"), "")
	a := state.Alloc(w.Store.Read(), "a")
	if !a.Migrate || a.ServerTerminal() {
		t.Errorf("the allocation is %+v", a)
	}
	w.WantEval("e", structs.EvalPending)
	w.Stop("a", "")
	wantKind(t, stop("a"), structs.KindPrecondition)
	wantKind(t, stop("x"), structs.KindNotFound)
}

// A plan that only begins a deployment does not begin it for a job that is gone meanwhile.
func TestPlanApply_BeginsNoDeploymentOfAPurgedJob(t *testing.T) {
	w := newFixture(t)
	do(w, state.JobRegister, &structs.JobRegisterRequest{Job: aJob("web", structs.JobService)})
	j := state.Job(w.Store.Read(), "default", "web")
	plan := &structs.Plan{
		Eval:           &structs.Evaluation{ID: "e", JobID: "web", Status: structs.EvalComplete},
		JobModifyIndex: j.JobModifyIndex,
		Deployment:     &structs.Deployment{ID: "d", JobID: "web", Status: structs.DeploymentRunning},
	}
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", Purge: true})
	do(w, state.PlanApply, plan)
	if d := state.Deployment(w.Store.Read(), "d"); d != nil {
		t.Errorf("the deployment is %+v", d)
	}
	if e := state.Eval(w.Store.Read(), "e"); e.Status != structs.EvalPending {
		t.Errorf("the evaluation is %s", e.Status)
	}
}
