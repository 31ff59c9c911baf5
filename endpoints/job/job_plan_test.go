package job_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/level"
	"berth/scheduler"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

func TestJobPlan_ShowsTheEffectsAndChangesNothing(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "")
	job := endpointstest.Job("j")
	job.TaskGroups[0].Volumes = nil
	index := s.Store.Index()
	planned := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job, Diff: true})
	if planned.JobModifyIndex != 0 || planned.Diff.Type != structs.DiffAdded {
		t.Errorf("a new job is planned at index %d, with a difference of type %s",
			planned.JobModifyIndex, planned.Diff.Type)
	}
	if u := planned.Annotations.DesiredTGUpdates["g"]; u == nil || u.Place != 1 {
		t.Errorf("the annotations are %+v", planned.Annotations)
	}
	if s.Store.Index() != index {
		t.Error("the plan was written")
	}
	registered := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	same := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job, Diff: true})
	if same.JobModifyIndex != registered.JobModifyIndex || same.Diff.Type != structs.DiffNone {
		t.Errorf("the same job is planned at index %d, with the type %s", same.JobModifyIndex, same.Diff.Type)
	}
	job.TaskGroups[0].Count = 7
	job.TaskGroups[0].Tasks[0].Driver = "none"
	edited := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job})
	if edited.Diff != nil || len(edited.FailedTGAllocs) != 1 || len(edited.CreatedEvals) != 1 {
		t.Errorf("a job without a place is planned as %+v", edited)
	}
	waits := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: endpointstest.Job("k")})
	endpointstest.WantText(t, errors.New(waits.Warnings), `there is no volume "v" in namespace "default" yet`)
	job.Priority = 1000
	endpointstest.Rejected(s, structs.KindInvalid, structs.JobPlan, &structs.JobPlanRequest{Job: job})
	endpointstest.Rejected(s, structs.KindInvalid, structs.JobPlan, &structs.JobPlanRequest{})
}

// The plan of an update in batches has the evaluation of the next batch, also if an earlier plan has added
// it.
func TestJobPlan_ShowsTheNextBatch(t *testing.T) {
	s := endpointstest.New(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		s.AddNode(id, "")
		node := state.Node(s.Store.Read(), id).Copy()
		node.Drivers = map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}}
		endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: node})
	}
	job := endpointstest.Job("log")
	job.Type = structs.JobSystem
	job.TaskGroups[0].Volumes = nil
	job.Update = &structs.UpdateStrategy{MaxParallel: 1, Stagger: time.Minute}
	schedule := func() {
		registered := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
		tx := s.Store.Read()
		p, err := scheduler.Process(tx, state.Eval(tx, registered.EvalID), s.Clock)
		if err != nil {
			t.Fatal(err)
		}
		p.Now = s.Clock.UnixNano()
		endpointstest.MustPropose(s, fsm.PlanApply, p)
	}
	checkBatch := func(when, id string) {
		t.Helper()
		evals := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job}).CreatedEvals
		if len(evals) != 1 || evals[0].TriggeredBy != structs.TriggerRollingUpdate ||
			evals[0].Wait() != time.Minute || id != "" && evals[0].ID != id {
			t.Errorf("%s: the plan continues with %+v", when, evals)
		}
	}
	schedule()
	job.TaskGroups[0].Tasks[0].Config["command"] = "false"
	checkBatch("a new version", "")
	schedule()
	batches := slices.Collect(state.LaterEvals(s.Store.Read()))
	if len(batches) != 1 {
		t.Fatalf("%d evaluations follow the first batch", len(batches))
	}
	job.Priority = 51
	checkBatch("during the update", batches[0].ID)
}

// The plan counts and lists the allocations of other jobs that the job would displace.
func TestJobPlan_ListsPreemptions(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "")
	node := state.Node(s.Store.Read(), "n1").Copy()
	node.Attributes = map[string]string{structs.AttrNodeLevel: strconv.Itoa(level.Now)}
	node.Drivers = map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}}
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: node})
	config := cluster.DefaultSchedulerConfiguration()
	config.PreemptionConfig.ServiceSchedulerEnabled = true
	endpointstest.Must(s, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
	important := func(id string, priority int) *structs.Job {
		job := endpointstest.Job(id)
		job.Priority = priority
		job.TaskGroups[0].Volumes = nil
		job.TaskGroups[0].Tasks[0].Resources = &structs.Resources{CPU: 3000, MemoryMB: 10}
		return job
	}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: important("low", 20)})
	processEvals(s)
	plan := endpointstest.Must(s, structs.JobPlan,
		&structs.JobPlanRequest{Job: important("high", 50), Diff: true})
	u := plan.Annotations.DesiredTGUpdates["g"]
	if u == nil || u.Place != 1 || u.Preemptions != 1 || len(plan.FailedTGAllocs) > 0 {
		t.Errorf("the plan counts %+v, with failures %+v", u, plan.FailedTGAllocs)
	}
	if a := plan.Annotations.PreemptedAllocs; len(a) != 1 || a[0].JobID != "low" || a[0].JobType != "service" {
		t.Errorf("the plan displaces %+v", a)
	}
	hidden := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{
		Job:          important("high", 50),
		QueryOptions: structs.QueryOptions{Sees: func(_, _ string) bool { return false }},
	})
	if a := hidden.Annotations.PreemptedAllocs; len(a) != 0 {
		t.Errorf("the plan shows allocations that its caller must not see: %+v", a)
	}
	if n := plan.Diff.TaskGroups[0].Updates[structs.UpdatePreemptions]; n != 1 {
		t.Errorf("the difference counts %d preemptions", n)
	}

	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: important("high", 50)})
	processEvals(s) // displaces low
	processEvals(s) // finds no place for low
	for sees, want := range map[bool]string{true: "of job high", false: "an allocation of another namespace"} {
		why := endpointstest.Must(s, structs.JobWhy, &structs.JobGetRequest{
			JobID:        "low",
			QueryOptions: structs.QueryOptions{Sees: func(_, _ string) bool { return sees }},
		})
		if !strings.Contains(why.Text, "was displaced by") || !strings.Contains(why.Text, want) {
			t.Errorf("got %q, want %q", why.Text, want)
		}
	}
}

// processEvals plans the evaluations that are ready, and applies their plans.
func processEvals(s *endpointstest.Server) {
	s.T.Helper()
	tx := s.Store.Read()
	for e := range state.ReadyEvals(tx) {
		plan, err := scheduler.Process(tx, e, s.Clock)
		if err != nil {
			s.T.Fatal(err)
		}
		endpointstest.MustPropose(s, fsm.PlanApply, plan)
	}
}

func TestJobVersions_HaveDifferences(t *testing.T) {
	s := endpointstest.New(t)
	for count := range 3 {
		job := endpointstest.Job("j")
		job.TaskGroups[0].Count = count
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	}
	if got := endpointstest.Must(s, structs.JobVersions, &structs.JobGetRequest{JobID: "j"}); got.Diffs != nil {
		t.Error("there are differences that nobody has asked for")
	}
	got := endpointstest.Must(s, structs.JobVersions, &structs.JobGetRequest{JobID: "j", Diffs: true})
	if len(got.Versions) != 3 || len(got.Diffs) != 2 {
		t.Fatalf("%d versions have %d differences", len(got.Versions), len(got.Diffs))
	}
	for _, f := range got.Diffs[0].TaskGroups[0].Fields {
		if f.Name == "Count" && (f.Old != "1" || f.New != "2") {
			t.Errorf("the newest difference is %+v", f)
		}
	}
}

// The plan of a job that starts others shows what one launch would place, if the registration changes it.
func TestJobPlan_OfAJobThatStartsOthers(t *testing.T) {
	for name, edit := range map[string]func(*structs.Job){
		"periodic": func(j *structs.Job) {
			j.Periodic = &structs.PeriodicConfig{Enabled: true, Spec: "@daily"}
		},
		"parameterized": func(j *structs.Job) { j.ParameterizedJob = &structs.ParameterizedJobConfig{} },
	} {
		s := endpointstest.New(t)
		s.AddNode("n1", "")
		node := state.Node(s.Store.Read(), "n1").Copy()
		node.Drivers = map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}}
		endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: node})
		job := endpointstest.Job("nightly")
		job.Type = structs.JobBatch
		job.TaskGroups[0].Volumes = nil
		edit(job)
		planned := func() (place int, answer *structs.JobPlanResponse) {
			answer = endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job, Diff: true})
			if u := answer.Annotations.DesiredTGUpdates["g"]; u != nil {
				place = int(u.Place)
			}
			return place, answer
		}
		place, answer := planned()
		if place != 1 || len(answer.FailedTGAllocs)+len(answer.CreatedEvals) > 0 || answer.Diff.ID != "nightly" {
			t.Errorf("%s: a new job: %d are placed, %+v", name, place, answer)
		}
		next := answer.NextPeriodicLaunch
		if name == "periodic" && !next.Equal(s.Clock.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)) ||
			name != "periodic" && !next.IsZero() {
			t.Errorf("%s: the next launch is at %s", name, next)
		}
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
		if place, _ := planned(); place != 0 {
			t.Errorf("%s: a job that stays: %d are placed", name, place)
		}
		job.TaskGroups[0].Tasks[0].Resources = &structs.Resources{CPU: 1_000_000, MemoryMB: 10}
		if _, answer := planned(); len(answer.FailedTGAllocs) != 1 {
			t.Errorf("%s: a job that does not fit: %+v", name, answer)
		}
	}
}

// The plan of a job places a plugin on a node that takes nothing else, as the leader does.
func TestJobPlan_ReturnsPlugins(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "")
	s.AddVolume("v")
	s.AddAlloc("a", "n1")
	endpointstest.MustPropose(s, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID: "n1",
		Claims: []*structs.CSIClaim{endpointstest.Claim("v", "a")},
	})
	addDrivers(s, "n1", map[string]bool{"exec": true}) // and its plugin is gone
	endpointstest.Must(s, structs.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:      "n1",
		Eligibility: structs.NodeIneligible,
	})
	job := endpointstest.Job("csi")
	job.Type = structs.JobSystem
	g := job.TaskGroups[0]
	g.Volumes = nil
	g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "pl", Type: structs.CSIPluginNode}
	u := endpointstest.Must(s, structs.JobPlan,
		&structs.JobPlanRequest{Job: job}).Annotations.DesiredTGUpdates["g"]
	if u == nil || u.Place != 1 {
		t.Errorf("the plan counts %+v, want 1 placed", u)
	}
}
