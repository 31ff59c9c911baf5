package state_test

import (
	"testing"
	"time"

	"berth/state"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

func periodicJob(id, cron string) *structs.Job {
	j := aJob(id, structs.JobBatch)
	j.Periodic = &structs.PeriodicConfig{Enabled: true, Spec: cron, SpecType: structs.PeriodicCron}
	return j
}

func (w *fixture) launch(parent *structs.Job, at int64, child *structs.Job) error {
	p := &structs.PeriodicLaunchRequest{
		ParentID:       parent.ID,
		JobModifyIndex: parent.JobModifyIndex,
		Launch:         at,
		Child:          child,
		WriteOptions:   w.Now(),
	}
	if child != nil {
		p.Eval = &structs.Evaluation{ID: "e-" + child.ID, TriggeredBy: structs.TriggerPeriodicJob}
	}
	return try(w, state.JobPeriodicLaunch, p)
}

func (w *fixture) wantLaunch(want int64) {
	w.T.Helper()
	got := state.PeriodicLaunch(w.Store.Read(), "default", "p")
	if got == nil && want != 0 || got != nil && got.Launch != want {
		w.T.Errorf("the last launch is %+v, want %d", got, want)
	}
}

func TestJobPeriodicLaunch_OncePerTime(t *testing.T) {
	w := newFixture(t)
	parent := w.Job(periodicJob("p", "@daily"))
	begun := state.PeriodicLaunch(w.Store.Read(), "default", "p").Launch
	w.wantJob("p", structs.JobRunning, 0)
	at := begun + int64(time.Second)
	child := parent.ChildAt(time.Unix(0, at))
	wantKind(t, w.launch(parent, at, child), "")
	w.wantLaunch(at)
	stored := w.wantJob(child.ID, structs.JobPending, 0)
	if stored.ParentID != "p" || stored.Periodic != nil {
		t.Errorf("the child is %+v", stored)
	}
	if e := state.Eval(w.Store.Read(), "e-"+child.ID); e == nil || e.JobID != child.ID {
		t.Errorf("the evaluation is %+v", e)
	}
	wantKind(t, w.launch(parent, at, child), structs.KindConflict)
	wantKind(t, w.launch(parent, at-1, nil), structs.KindConflict)
	wantKind(t, w.launch(parent, at+1, child), "") // in the same second: one child
	wantKind(t, w.launch(parent, at+2, nil), "")   // skipped
	w.wantLaunch(at + 2)
	got := state.JobSummary(w.Store.Read(), parent).Children
	if *got != (structs.JobChildrenSummary{Pending: 1}) {
		t.Errorf("the children are %+v", got)
	}
	if !state.HasLiveChild(w.Store.Read(), parent) {
		t.Error("the child is not found")
	}

	same := periodicJob("p", "@daily")
	same.Meta = map[string]string{"another": "version"}
	parent = w.Job(same)
	w.wantLaunch(at + 2)
	wantKind(t, w.launch(&structs.Job{ID: "p", JobModifyIndex: 1}, at+9, nil), structs.KindConflict)
	w.Job(periodicJob("p", "@hourly"))
	w.wantLaunch(state.Job(w.Store.Read(), "default", "p").SubmitTime) // another schedule
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "p", WriteOptions: w.Now()})
	w.wantLaunch(0)
	wantKind(t, w.launch(parent, at+9, nil), structs.KindNotFound)
	if faults := state.Check(w.Store.Read()); faults != nil {
		t.Error(faults)
	}
}

// A clock that was ahead has launched the job. That counts until the clock is known to be wrong.
func TestJobPeriodicLaunch_GoesOnAfterALaunchInTheFuture(t *testing.T) {
	w := newFixture(t)
	parent := w.Job(periodicJob("p", "@daily"))
	now := state.PeriodicLaunch(w.Store.Read(), "default", "p").Launch
	day := int64(24 * time.Hour)
	for _, ahead := range []time.Duration{30 * time.Hour, 0} {
		do(w, func(tx *state.WriteTx, row *cluster.ClusterTime) error {
			schema.ClusterTimes.Put(tx, row)
			return nil
		}, &cluster.ClusterTime{Time: now, Ahead: ahead})
		kind := structs.Kind("")
		if ahead > 0 {
			wantKind(t, w.launch(parent, now+day, nil), "")
			kind = structs.KindConflict
		}
		wantKind(t, w.launch(parent, now+2, nil), kind)
	}
	w.wantLaunch(now + 2)
	wantKind(t, w.launch(parent, now+1, nil), structs.KindConflict)
}

func TestJobRegister_KeepsTheKindOfAJob(t *testing.T) {
	w := newFixture(t)
	w.Job(periodicJob("p", "@daily"))
	wantKind(t, try(w, state.JobRegister, &structs.JobRegisterRequest{Job: aJob("p", structs.JobBatch)}),
		structs.KindPrecondition)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "p", WriteOptions: w.Now()})
	w.Job(aJob("p", structs.JobBatch))
}

func TestJobDispatch_OncePerToken(t *testing.T) {
	w := newFixture(t)
	j := aJob("d", structs.JobBatch)
	j.ParameterizedJob = &structs.ParameterizedJobConfig{Payload: structs.PayloadOptional}
	parent := w.Job(j)
	dispatch := func(id, token string) error {
		child := parent.Copy()
		child.ID = id
		child.Dispatched = true
		child.Payload = []byte("data")
		child.DispatchIdempotencyToken = token
		return try(w, state.JobDispatch, &structs.JobDispatchRequest{
			JobID:            "d",
			JobModifyIndex:   parent.JobModifyIndex,
			IdempotencyToken: token,
			Child:            child,
			Eval:             &structs.Evaluation{ID: "e-" + id},
			WriteOptions:     w.Now(),
		})
	}
	wantKind(t, dispatch("d/dispatch-1", "t"), "")
	wantKind(t, dispatch("d/dispatch-2", "t"), "")
	wantKind(t, dispatch("d/dispatch-3", ""), "")
	wantKind(t, dispatch("d/dispatch-3", ""), structs.KindConflict)
	tx := w.Store.Read()
	if state.Job(tx, "default", "d/dispatch-2") != nil || state.Eval(tx, "e-d/dispatch-2") != nil {
		t.Error("a second dispatch with a token has a child")
	}
	first := state.DispatchedJob(tx, "default", "d", "t")
	if first == nil || first.ID != "d/dispatch-1" || string(first.Payload) != "data" {
		t.Errorf("the child of the token is %+v", first)
	}
	again := first.Copy()
	again.Meta = map[string]string{"another": "version"}
	again.DropServerFields()
	if got := w.Job(again); got.ParentID != "d" || string(got.Payload) != "data" {
		t.Errorf("the child lost its parent: %+v", got)
	}
}

// disableDriver makes the default namespace reject the jobs of a driver.
func (w *fixture) disableDriver(driver string) {
	w.T.Helper()
	do(w, namespace.Apply, &cluster.NamespaceApplyRequest{
		Definition: &cluster.Namespace{
			Name:         structs.DefaultNamespace,
			Capabilities: &cluster.NamespaceCapabilities{DisabledTaskDrivers: []string{driver}},
		},
		WriteOptions: w.Now(),
	})
}

func TestJobRevert_FollowsTheRuleOfTheNamespace(t *testing.T) {
	w := newFixture(t)
	w.Job(jobWithSalt("j", 0))
	w.Job(jobWithSalt("j", 1))
	w.disableDriver(state.Job(w.Store.Read(), "default", "j").TaskGroups[0].Tasks[0].Driver)
	err := try(w, state.JobRevert, &structs.JobRevertRequest{JobID: "j", WriteOptions: w.Now()})
	wantKind(t, err, structs.KindPrecondition)
}

func TestJobRevert_ChecksTheVersions(t *testing.T) {
	w := newFixture(t)
	w.Job(jobWithSalt("j", 0))
	w.Job(jobWithSalt("j", 1))
	revert := func(version uint64, prior *uint64) error {
		return try(w, state.JobRevert, &structs.JobRevertRequest{
			JobID:               "j",
			JobVersion:          version,
			EnforcePriorVersion: prior,
			Eval:                &structs.Evaluation{ID: "e"},
			WriteOptions:        w.Now(),
		})
	}
	wantKind(t, revert(1, nil), structs.KindInvalid)
	wantKind(t, revert(9, nil), structs.KindNotFound)
	wantKind(t, revert(0, new(uint64(7))), structs.KindConflict)
	wantKind(t, revert(0, new(uint64(1))), "")
	if j := w.wantJob("j", structs.JobPending, 2); j.Meta["salt"] != "0" {
		t.Errorf("the job is %+v", j)
	}
	if e := state.Eval(w.Store.Read(), "e"); e == nil || e.JobID != "j" {
		t.Errorf("the evaluation is %+v", e)
	}
}
