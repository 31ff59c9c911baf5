package job

import (
	"context"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/validate"
)

// registrationEval returns the evaluation of a registered job, nil for a job that runs nothing itself.
func registrationEval(job *structs.Job, trigger string, now int64) *structs.Evaluation {
	if job.StartsOthers() {
		return nil
	}
	return evaluationOf(job, trigger, now)
}

// Dispatch registers a child of a parameterized job with a payload and metadata. With a token, the first
// dispatch decides. A repetition gets the child of the first one.
func (j Jobs) Dispatch(
	ctx context.Context,
	req *structs.JobDispatchRequest,
	resp *structs.JobDispatchResponse,
) (uint64, error) {
	err := j.rejectRegistration()
	if err != nil {
		return 0, err
	}

	ns := req.RequestNamespace()

	parent, err := findJob(j.Store.Read(), ns, req.JobID)
	if err != nil {
		return 0, err
	}

	// The ID of the child has the time in it. This time comes from the request, so it is the same in the log.
	now := time.Unix(0, req.Now)
	child, err := dispatchedChild(parent, req, now)
	if err != nil {
		return 0, err
	}

	// The entry would otherwise have the payload twice, and it may be large.
	entry := *req
	entry.Payload = nil // the child has it
	entry.Meta = nil
	// The state function rejects the child if the parent has changed since: it was made from that version.
	entry.JobModifyIndex = parent.JobModifyIndex
	entry.Child = child
	entry.Eval = evaluationOf(child, structs.TriggerJobRegister, req.Now)
	index, err := fsm.Propose(ctx, j.Raft, fsm.JobDispatch, &entry)
	if err != nil {
		return index, err
	}

	resp.DispatchedJobID = child.ID
	resp.EvalID = entry.Eval.ID
	resp.EvalCreateIndex = index
	resp.JobCreateIndex = index
	if req.IdempotencyToken == "" {
		return index, nil
	}

	// The state function has found the token, and stored no second child. The evaluation of the first may
	// have ended long ago, so the answer has none.
	first := state.DispatchedJob(j.Store.Read(), ns, req.JobID, req.IdempotencyToken)
	if first != nil && first.ID != child.ID { // an earlier dispatch has started it
		resp.DispatchedJobID = first.ID
		resp.JobCreateIndex = first.CreateIndex
		resp.EvalID = ""
		resp.EvalCreateIndex = 0
	}

	return index, nil
}

// dispatchedChild returns the job that a dispatch starts, or an error if the values do not fit the
// parameters.
func dispatchedChild(
	parent *structs.Job,
	req *structs.JobDispatchRequest,
	now time.Time,
) (*structs.Job, error) {
	err := validate.Dispatch(parent, req)
	if err != nil {
		return nil, err
	}
	// The child has the metadata of the request, so its limits are checked again.
	child := parent.DispatchedChild(req, now)
	return child, validate.Job(child)
}

// ForcePeriodic launches a child of a periodic job now.
func (j Jobs) ForcePeriodic(
	ctx context.Context,
	req *structs.PeriodicForceRequest,
	resp *structs.PeriodicForceResponse,
) (uint64, error) {
	parent, err := findJob(j.Store.Read(), req.RequestNamespace(), req.JobID)
	switch {
	case err != nil:
		return 0, err
	case parent.Periodic == nil:
		return 0, structs.Preconditionf("job %q is not periodic", req.JobID)
	case !parent.IsPeriodic():
		return 0, structs.Preconditionf("job %q is stopped, or its schedule is not enabled", req.JobID)
	}

	// The ID of the child has the second of its launch.
	child := parent.ChildAt(time.Unix(0, req.Now))
	if state.Job(j.Store.Read(), parent.Namespace, child.ID) != nil {
		return 0, structs.Conflictf("job %q was launched in this second already", req.JobID)
	}

	entry := &structs.PeriodicLaunchRequest{
		ParentID:       parent.ID,
		JobModifyIndex: parent.JobModifyIndex,
		Launch:         req.Now,
		Child:          child,
		Eval:           evaluationOf(child, structs.TriggerPeriodicJob, req.Now),
		WriteOptions:   req.WriteOptions,
	}

	index, err := fsm.Propose(ctx, j.Raft, fsm.PeriodicLaunch, entry)
	resp.EvalID = entry.Eval.ID
	resp.EvalCreateIndex = index
	return index, err
}

// Revert registers an older version of a job as its newest.
func (j Jobs) Revert(
	ctx context.Context,
	req *structs.JobRevertRequest,
	resp *structs.JobRegisterResponse,
) (uint64, error) {
	err := j.rejectRegistration()
	if err != nil {
		return 0, err
	}

	current, version, err := state.CheckRevert(j.Store.Read(), req)
	// CheckRevert finds also versions of a purged job with the same ID.
	if current != nil && version != nil && !state.IsVersionOf(version, current) {
		err = state.NoVersion(req.RequestNamespace(), req.JobID, req.JobVersion)
	}

	// The cluster may have changed since, so the version is checked as a new one is.
	if err == nil {
		err = j.checkCanaries(version)
	}
	if err == nil {
		err = checkPluginUse(j.Store.Read(), current, version)
	}
	if err != nil {
		return 0, err
	}

	ruled, err := j.applyRules(ctx, j.Store.Read(), version)
	if err != nil {
		return 0, err
	}

	// The submitter of the revert needs the rights, and not the old version's.
	err = j.checkSubmitter(ctx, version, req.ConsulToken)
	if err == nil {
		err = j.setGateways(ctx, version)
	}
	if err != nil {
		return 0, err
	}

	req.Eval = registrationEval(version, structs.TriggerJobRegister, req.Now)
	index, err := fsm.Propose(ctx, j.Raft, fsm.JobRevert, req.WithoutToken())
	if err != nil {
		return index, err
	}

	j.answerRegistration(resp, req.Eval, index)
	resp.Warnings = ruled
	stored := state.Job(j.Store.Read(), req.RequestNamespace(), req.JobID)
	if stored != nil {
		resp.JobModifyIndex = stored.JobModifyIndex
	}

	return index, nil
}

// answerRegistration leaves the fields empty for a job that runs nothing itself.
func (Jobs) answerRegistration(resp *structs.JobRegisterResponse, e *structs.Evaluation, index uint64) {
	if e != nil {
		resp.EvalID = e.ID
		resp.EvalCreateIndex = index
	}
}

// scalingBlocked begins the error of a scaling during a deployment. Autoscalers of the dialect know this
// text and take the error for one that passes.
const scalingBlocked = "job scaling blocked due to active deployment"

// Scale registers the job with another count. The job must not have changed since it was read.
func (j Jobs) Scale(
	ctx context.Context,
	req *structs.JobScaleRequest,
	resp *structs.JobRegisterResponse,
) (uint64, error) {
	// The text is the path in the request of the API.
	if req.Group == "" {
		return 0, structs.Invalidf("Target.Group: nothing is given; expected the name of a group")
	}

	job, err := findJob(j.Store.Read(), req.RequestNamespace(), req.JobID)
	if err != nil {
		return 0, err
	}

	// Clients of the dialect look for the first words of the text.
	if req.JobModifyIndex != 0 && req.JobModifyIndex != job.JobModifyIndex {
		return 0, structs.Conflictf("Enforcing job modify index %d: job %q has changed, its index is %d",
			req.JobModifyIndex, job.ID, job.JobModifyIndex)
	}

	event := scalingEvent(req)
	err = validate.ScalingEvent(event.Event)
	if err != nil {
		return 0, err
	}

	// An event without a count tells of a decision that changes nothing.
	if req.Count == nil {
		resp.JobModifyIndex = job.JobModifyIndex
		return j.noteScaling(ctx, req, event)
	}

	scaled, err := scaledJob(job, req)
	if err != nil {
		return 0, err
	}

	err = j.checkNoDeployment(job)
	if err != nil {
		return 0, err
	}

	// The source stays with the new version, which differs by the count alone.
	source := state.JobSubmission(j.Store.Read(), job.Namespace, job.ID, job.Version)

	// EnforceIndex closes the gap between the read and the entry: another registration since then makes this
	// one fail.
	register := &structs.JobRegisterRequest{
		Job:            scaled,
		EnforceIndex:   true,
		JobModifyIndex: job.JobModifyIndex,
		Submission:     source,
		Scaling:        event,
		WriteOptions:   req.WriteOptions,
	}

	return j.registerFor(ctx, structs.TriggerScaling, register, resp)
}

// scalingEvent returns the event that the row of the group keeps for a request.
func scalingEvent(req *structs.JobScaleRequest) *structs.GroupScalingEvent {
	return &structs.GroupScalingEvent{Group: req.Group, Event: &structs.ScalingEvent{
		Time:    req.Now,
		Count:   req.Count,
		Error:   req.Error,
		Message: req.Message,
		Meta:    req.Meta,
	}}
}

// checkNoDeployment returns an error while a deployment of a job runs: another version would end it. The
// deployment of a purged job with the same ID does not count.
func (j Jobs) checkNoDeployment(job *structs.Job) error {
	d := state.ActiveDeployment(j.Store.Read(), job.Namespace, job.ID)
	if d == nil || d.JobCreateIndex != job.CreateIndex {
		return nil
	}
	return structs.Preconditionf("%s %s of job %q; wait for its end, or end it: %s",
		scalingBlocked, d.ID, job.ID, structs.CommandLine(job.Namespace, "deployment fail", d.ID))
}

// noteScaling stores an event without a change of the job.
func (j Jobs) noteScaling(
	ctx context.Context, req *structs.JobScaleRequest, event *structs.GroupScalingEvent,
) (uint64, error) {
	err := j.rejectRegistration()
	if err != nil {
		return 0, err
	}
	return fsm.Propose(ctx, j.Raft, fsm.JobScalingEvent, &structs.JobScalingEventRequest{
		JobID:             req.JobID,
		GroupScalingEvent: *event,
		WriteOptions:      req.WriteOptions,
	})
}

// scaledJob returns a copy of a job with another count of one group. The error is invalid, not-found, or a
// precondition if no count of the job can change.
func scaledJob(job *structs.Job, req *structs.JobScaleRequest) (*structs.Job, error) {
	switch {
	case *req.Count < 0 || *req.Count > structs.MaxGroupCount:
		return nil, structs.Invalidf("Count is %d; expected a number from 0 to %d",
			*req.Count, structs.MaxGroupCount)
	case job.PerNode():
		return nil, structs.Preconditionf("job %q is of type %s: it runs on every feasible node and has no count",
			job.ID, job.Type)
	case job.Stop:
		return nil, structs.Preconditionf("job %q is stopped", job.ID)
	case job.Group(req.Group) == nil:
		return nil, structs.NotFoundf("job %q has no group %q", job.ID, req.Group)
	}

	// The limits are in the scaling block of the group.
	err := job.Group(req.Group).Scaling.Holds(*req.Count)
	if err != nil {
		return nil, structs.Invalidf("job %q: group %q: %v", job.ID, req.Group, err)
	}

	scaled := job.Copy()
	// Rows are immutable, so the changed group is a copy. The others are shared.
	for i, g := range scaled.TaskGroups {
		if g.Name == req.Group {
			changed := *g
			changed.Count = int(*req.Count)
			scaled.TaskGroups[i] = &changed
		}
	}

	return scaled, nil
}

// ScaleStatus counts the allocations of the groups of a job, and lists their changes of scale.
func (j Jobs) ScaleStatus(
	tx *state.ReadTx,
	req *structs.JobGetRequest,
	resp *structs.JobScaleStatusResponse,
) error {
	job, err := findJob(tx, req.RequestNamespace(), req.JobID)
	if err != nil {
		return err
	}

	out := &structs.JobScaleCounts{
		JobID:          job.ID,
		Namespace:      job.Namespace,
		JobCreateIndex: job.CreateIndex,
		JobModifyIndex: job.JobModifyIndex,
		JobStopped:     job.Stop,
		// Every group is in the answer, also without allocations or events.
		TaskGroups: map[string]*structs.TaskGroupScaleStatus{},
	}

	for _, g := range job.TaskGroups {
		out.TaskGroups[g.Name] = &structs.TaskGroupScaleStatus{Desired: g.Count}
	}

	for a := range state.LiveAllocsByJob(tx, job.Namespace, job.ID) {
		countScaled(out.TaskGroups[a.TaskGroup], a)
	}

	// The rows may have events of a group that the job has no longer.
	for row := range state.ScalingEventsOf(tx, job.Namespace, job.ID) {
		if g := out.TaskGroups[row.Group]; g != nil {
			g.Events = row.Events
		}
	}

	resp.JobScaleStatus = out
	return nil
}

// countScaled counts a live allocation in the status of its group, nil if the job has it no longer. A canary
// counts once it is promoted: until then it stands beside the count of its group.
func countScaled(group *structs.TaskGroupScaleStatus, a *structs.Allocation) {
	if group == nil || a.DeploymentStatus.IsCanary() {
		return
	}
	group.Placed++
	if a.ClientStatus == structs.AllocRunning {
		group.Running++
	}
	switch {
	case a.DeploymentStatus.IsHealthy():
		group.Healthy++
	case a.DeploymentStatus.IsUnhealthy():
		group.Unhealthy++
	}
}
