package job

import (
	"cmp"
	"context"
	"time"

	"berth/endpoints/injection"
	"berth/endpoints/query"
	"berth/scheduler"
	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/jobdiff"
	"berth/structs/validate"
	"berth/structs/validate/field"
)

// Plan registers a job in a draft of the state and lets the scheduler plan it there. Nothing of the draft
// reaches the log or another request.
func (j Jobs) Plan(
	ctx context.Context,
	tx *state.ReadTx,
	req *structs.JobPlanRequest,
	resp *structs.JobPlanResponse,
) error {
	job, err := j.admitJob(req.Job, req.RequestNamespace())
	if err != nil {
		return err
	}

	ruled, err := j.applyRules(ctx, tx, job)
	if err != nil {
		return err
	}

	// It is what a client enforces when it registers the job that it has planned.
	old := state.Job(tx, job.Namespace, job.ID)
	if old != nil {
		resp.JobModifyIndex = old.JobModifyIndex
	}

	now := j.Clock.Now()
	err = j.preview(tx, job, now, resp)
	if err != nil {
		return err
	}

	resp.Annotations.PreemptedAllocs = query.SeenStubs(&req.QueryOptions, resp.Annotations.PreemptedAllocs)

	if req.Diff {
		resp.Diff = jobdiff.Compare(old, job, true)
		// The plan knows whether a change restarts tasks.
		scheduler.AnnotateChanges(resp.Diff, old, job, resp.Annotations.DesiredTGUpdates)
	}

	resp.Warnings = joinWarnings(field.JoinFaults(validate.JobWarnings(req.Job)), missingVolumes(tx, job),
		missingDrivers(tx, job), boundMemory(tx, job), largeMemory(tx, job), trust.Warning(tx, job),
		namespace.QuotaWarning(tx, job), csi.JobVolumeWarning(tx, job), ruled)
	if job.IsPeriodic() {
		resp.NextPeriodicLaunch, err = job.Periodic.Next(j.Now())
	}

	return err
}

// preview fills in the part of an answer that the scheduler computes: it registers the job in a draft of the
// state, which is dropped after that.
func (j Jobs) preview(
	tx *state.ReadTx, job *structs.Job, now time.Time, resp *structs.JobPlanResponse,
) error {
	old := state.Job(tx, job.Namespace, job.ID)
	draft := tx.Draft()
	register := &structs.JobRegisterRequest{
		Job:          job,
		Eval:         registrationEval(job, structs.TriggerJobRegister, now.UnixNano()),
		WriteOptions: structs.WriteOptions{Now: now.UnixNano()},
	}

	err := state.JobRegister(draft, register)
	if err != nil {
		return err
	}

	// It is an empty map, and no null, in JSON.
	resp.Annotations = &structs.PlanAnnotations{
		DesiredTGUpdates: map[string]*structs.DesiredUpdates{},
	}

	eval := register.Eval
	// A job that starts others has no evaluation of its own. Clients take a plan without a child for one
	// without a change.
	if eval == nil && isNewVersion(draft, old, job) {
		eval, err = registerChild(draft, job, now)
		if err != nil {
			return err
		}
	}

	if eval == nil {
		return nil
	}

	// The plan reads the draft, where the job is registered already.
	preview, err := j.dryRun(draft.ReadTx, state.Eval(draft, eval.ID), now)
	if err != nil {
		return err
	}

	resp.Annotations.DesiredTGUpdates = preview.Desired
	resp.Annotations.PreemptedAllocs = preview.Preempted
	resp.Annotations.Volumes = csi.JobVolumeChanges(tx, draft, state.Job(draft, job.Namespace, eval.JobID),
		preview.Plan)
	resp.FailedTGAllocs = preview.Eval.FailedTGAllocs
	// Evaluations of a child are of no job that exists.
	if eval.JobID == job.ID {
		resp.CreatedEvals = laterEvals(tx, preview)
	}
	return nil
}

// isNewVersion reports whether a registration in a draft has changed a job. The state function keeps the
// number of an equal version.
func isNewVersion(draft state.Reader, old, job *structs.Job) bool {
	return old == nil || state.Job(draft, job.Namespace, job.ID).Version != old.Version
}

// registerChild registers a child of a job that starts others in a draft. As in the dialect, the plan of such
// a job shows what one launch of it would place. Clients tell from that whether to register the job.
func registerChild(draft *state.WriteTx, job *structs.Job, now time.Time) (*structs.Evaluation, error) {
	child := job.ChildAt(now)
	// A child with parameters would start others, too, and show nothing.
	child.ParameterizedJob = nil
	register := &structs.JobRegisterRequest{
		Job:          child,
		Eval:         registrationEval(child, structs.TriggerJobRegister, now.UnixNano()),
		WriteOptions: structs.WriteOptions{Now: now.UnixNano()},
	}
	err := state.JobRegister(draft, register)
	return register.Eval, err
}

// dryRun makes the plan that the leader would make.
func (j Jobs) dryRun(tx *state.ReadTx, eval *structs.Evaluation, now time.Time) (*scheduler.Preview, error) {
	return scheduler.DryRun(tx, eval, now)
}

// laterEvals returns the evaluations that continue a plan: its followups, and the one of an earlier plan that
// would do its next batch.
func laterEvals(tx *state.ReadTx, p *scheduler.Preview) []*structs.Evaluation {
	evals := p.Followups
	if next := state.Eval(tx, p.Eval.NextEval); next != nil {
		evals = append(evals, next)
	}
	if p.Blocked != nil {
		evals = append(evals, p.Blocked)
	}
	return evals
}

// admitJob returns a copy of a job in the form in which it is stored.
func (j Jobs) admitJob(given *structs.Job, ns string) (*structs.Job, error) {
	if given == nil {
		return nil, structs.Invalidf("Job: nothing is given; expected a job")
	}

	job, err := copyJob(given)
	if err != nil {
		return nil, err
	}

	// The job wins over the request, as in the dialect: a file with a namespace means it.
	job.Namespace = cmp.Or(job.Namespace, ns)
	job.Region = cmp.Or(job.Region, j.Region)
	if job.Region != j.Region {
		return nil, structs.Invalidf("Job.Region is %q; expected %q, the region of these servers",
			job.Region, j.Region)
	}

	// A client that reads a job and registers it again sends these fields along.
	job.DropServerFields()
	old := state.Job(j.Store.Read(), job.Namespace, job.ID)
	if old != nil {
		// A child that is registered again remains the child of its parent. A user cannot make one.
		job.SetParent(old)
	}

	// The checks are of the canonical job, because defaults can break a limit too.
	defaults.Canonicalize(job)
	j.WorkloadLogins.Add(job)
	err = injection.AddSidecars(job).Err()
	if err == nil {
		err = injection.CheckLogins(job)
	}

	if err == nil {
		err = j.checkCanaries(job)
	}

	return job, err
}
