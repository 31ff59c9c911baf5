package scheduler

import (
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

func TestReschedule_FollowsThePolicy(t *testing.T) {
	w := running(t, aJob("web", structs.JobService), "n1", "n2")
	first := w.allocs("web")[0]
	w.clock = w.clock.Add(time.Minute)
	w.client(first, structs.AllocFailed)

	p := w.run("web") // not yet: 30 s
	if len(p.Place) != 0 || len(p.Followups) != 1 ||
		p.Followups[0].WaitUntil != w.clock.Add(30*time.Second).UnixNano() {
		t.Fatalf("plan: %s", describe(p))
	}
	if p.Eval.QueuedAllocations["g"] != 0 ||
		state.Alloc(w.s.Read(), first.ID).FollowupEvalID != p.Followups[0].ID {
		t.Errorf("the allocation does not name its evaluation: %+v", p.Eval)
	}

	w.clock = w.clock.Add(30 * time.Second)
	p = w.process(p.Followups[0])
	w.apply(p)
	if len(p.Place) != 1 || p.Place[0].NodeID != "n2" ||
		p.Place[0].PreviousAllocation != first.ID {
		t.Fatalf("plan: %s", describe(p)) // the other node: a penalty is on the first
	}
	if e := p.Place[0].RescheduleTracker.Events; len(e) != 1 || e[0].PrevNodeID != "n1" ||
		e[0].Delay != 30*time.Second {
		t.Errorf("tracker: %+v", e)
	}
	w.run("web")

	w.clock = w.clock.Add(time.Second)
	w.client(w.allocs("web")[0], structs.AllocFailed)
	p = w.run("web")
	if len(p.Followups) != 1 ||
		p.Followups[0].WaitUntil != w.clock.Add(time.Minute).UnixNano() { // twice as long
		t.Fatalf("plan: %s", describe(p))
	}
}

// An allocation whose tasks never began ended with the report of its node. Later changes by the servers do
// not move this time.
func TestReschedule_OfAnAllocationThatRanNoTask(t *testing.T) {
	w := running(t, aJob("web", structs.JobService), "n1", "n2")
	w.client(w.allocs("web")[0], structs.AllocFailed)
	due := w.clock.Add(30 * time.Second)
	w.clock = w.clock.Add(time.Second)
	p := w.run("web")
	if len(p.Followups) != 1 || p.Followups[0].WaitUntil != due.UnixNano() {
		t.Fatalf("plan: %s", describe(p))
	}
	w.clock = due
	p = w.process(p.Followups[0])
	if len(p.Place) != 1 {
		t.Fatalf("replacement is delayed again: %s", describe(p))
	}
}

func TestReschedule_AttemptsEnd(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.job(aJob("once", structs.JobBatch)) // one attempt in a day, after 5 s
	w.run("once")
	w.client(w.allocs("once")[0], structs.AllocFailed)
	w.clock = w.clock.Add(5 * time.Second)
	w.run("once")
	w.wantPlaced("once", "0@n1")
	w.client(w.allocs("once")[0], structs.AllocFailed)
	w.clock = w.clock.Add(time.Hour)
	if p := w.run("once"); len(p.Place)+len(p.Followups) != 0 {
		t.Errorf("plan: %s", describe(p))
	}
	w.job(aJob("once", structs.JobBatch, cpu(101))) // a new version starts again
	w.run("once")
	w.wantPlaced("once", "0@n1")
}

// An operator has an allocation replaced at once: before its time, and beyond the attempts of its policy.
func TestReschedule_OnDemand(t *testing.T) {
	for name, policy := range map[string]structs.ReschedulePolicy{
		"before its time":  {Delay: time.Hour, DelayFunction: structs.RescheduleConstant, Unlimited: true},
		"without a policy": {},
	} {
		w := running(t, aJob("web", structs.JobService, func(j *structs.Job) {
			j.TaskGroups[0].ReschedulePolicy = &policy
		}), "n1")
		failed := w.allocs("web")[0]
		w.client(failed, structs.AllocFailed)
		w.run("web")
		j := state.Job(w.s.Read(), "default", "web")
		e := structs.NewEval(j, structs.TriggerManual, w.clock.UnixNano())
		e.ID = structs.NewID()
		do(w, state.JobReschedule, &structs.JobEvaluateRequest{JobID: "web", Eval: e})
		p := w.process(e)
		w.apply(p)
		if len(p.Place) != 1 || p.Place[0].PreviousAllocation != failed.ID {
			t.Fatalf("%s: plan %s", name, describe(p))
		}
		if p := w.run("web"); len(p.Place) != 0 {
			t.Errorf("%s: replaced twice: %s", name, describe(p))
		}
	}
}

func TestReschedule_NotWithoutAPolicy(t *testing.T) {
	w := running(t, aJob("web", structs.JobService,
		func(j *structs.Job) {
			j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{}
		}), "n1")
	w.client(w.allocs("web")[0], structs.AllocFailed)
	w.clock = w.clock.Add(time.Hour)
	if p := w.run("web"); len(p.Place)+len(p.Followups) != 0 {
		t.Errorf("plan: %s", describe(p))
	}
}

// An allocation that ends while a plan updates it in place is replaced like others of an older version,
// whatever its policy: its deployment would wait for its health.
func TestReschedule_OfAnAllocationThatEndedBeforeItsUpdate(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.nodes("n1")
	version := func(parallel int) {
		d.job(aJob("web", structs.JobService, func(j *structs.Job) {
			j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{}
			u := structs.DefaultUpdateStrategy()
			u.MaxParallel = parallel
			j.TaskGroups[0].Update = &u
		}))
	}
	version(1)
	d.plan()
	old := d.allocs("web")[0]
	d.health(old, true, structs.AllocRunning)
	d.plan()
	version(2)
	p := d.process(d.eval("web"))
	d.client(old, structs.AllocFailed)
	p.WriteOptions = d.now()
	do(d.fixture, state.PlanApply, p)
	d.plan()
	live := d.allocs("web")
	if len(live) != 1 || live[0].JobVersion != 1 {
		t.Fatalf("it is not replaced: %s", d.describe())
	}
	d.health(live[0], true, structs.AllocRunning)
	d.plan()
	if row := state.LatestDeployment(d.s.Read(), "default", "web"); row.Status != structs.DeploymentSuccessful {
		t.Errorf("the deployment is %s", d.describe())
	}
}

// The clock of the node is ahead by more than a day. The delay of the policy holds, and no more.
func TestReschedule_OnANodeWhoseClockIsAhead(t *testing.T) {
	w := running(t, aJob("web", structs.JobService), "n1", "n2")
	first := w.allocs("web")[0]
	right := w.clock
	w.clock = right.Add(30 * time.Hour)
	w.client(first, structs.AllocFailed)
	w.clock = right

	p := w.run("web")
	due := w.clock.Add(30 * time.Second)
	if len(p.Place) != 0 || len(p.Followups) != 1 || p.Followups[0].WaitUntil != due.UnixNano() {
		t.Fatalf("plan: %s", describe(p))
	}
	followup := p.Followups[0]

	w.clock = w.clock.Add(10 * time.Second)
	p = w.run("web")
	if len(p.Place) != 0 || len(p.Followups) != 0 {
		t.Fatalf("another evaluation in between: %s", describe(p))
	}

	w.clock = due
	p = w.process(followup)
	if len(p.Place) != 1 || p.Place[0].PreviousAllocation != first.ID {
		t.Errorf("plan: %s", describe(p))
	}
}

// The node was cut off, and its tasks did not fail by themselves: there is no delay, and none that grows.
func TestReschedule_AfterTheEndOfALease(t *testing.T) {
	w := running(t, aJob("web", structs.JobService), "n1", "n2")
	for range 3 {
		w.clock = w.clock.Add(time.Minute)
		a := w.allocs("web")[0]
		do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			NodeID: a.NodeID,
			Allocs: []*structs.AllocClientUpdate{{
				ID:           a.ID,
				ClientStatus: structs.AllocFailed,
				TaskStates: map[string]*structs.TaskState{"t": {
					State:  structs.TaskDead,
					Failed: true,
					Events: []*structs.TaskEvent{{Type: structs.TaskEventLeaseEnded, FailsTask: true}},
				}},
			}},
			WriteOptions: w.now(),
		})
		p := w.run("web")
		if len(p.Place) != 1 || len(p.Followups) != 0 || p.Place[0].RescheduleTracker != nil {
			t.Fatalf("plan: %s", describe(p))
		}
	}

	w.clock = w.clock.Add(time.Minute)
	w.client(w.allocs("web")[0], structs.AllocFailed)
	p := w.run("web")
	if len(p.Followups) != 1 || p.Followups[0].WaitUntil != w.clock.Add(30*time.Second).UnixNano() {
		t.Errorf("a failure after it: %s", describe(p))
	}
}

// A step of the cluster time is no time that has passed: the delay of an allocation that failed before it
// lasts for as long. The evaluation of the delay comes early, and another one follows it.
func TestReschedule_CountsNoStepOfTheClusterTime(t *testing.T) {
	w := running(t, aJob("web", structs.JobService), "n1", "n2")
	found := w.clock
	w.clock = w.clock.Add(time.Minute)
	w.client(w.allocs("web")[0], structs.AllocFailed)
	first := w.run("web").Followups[0]
	w.stepClock(found, 10*time.Hour)
	p := w.process(first)
	w.apply(p)
	if len(p.Place) != 0 || len(p.Followups) != 1 ||
		p.Followups[0].WaitUntil != w.clock.Add(30*time.Second).UnixNano() {
		t.Fatalf("after the step: %s", describe(p))
	}
	w.clock = w.clock.Add(30 * time.Second)
	if p := w.process(p.Followups[0]); len(p.Place) != 1 {
		t.Fatalf("after the delay: %s", describe(p))
	}
}
