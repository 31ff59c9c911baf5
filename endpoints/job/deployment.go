package job

import (
	"context"
	"slices"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// Deployments serve Deployment.
type Deployments struct{ *core.Server }

// deploymentList lists whole deployments.
var deploymentList = query.List[structs.Deployment, structs.Deployment]{
	Key:  func(d *structs.Deployment) []string { return []string{d.ID} },
	Stub: query.Whole[structs.Deployment],
}

// findDeployment cuts the ID in the error, which may be a text of any size.
func findDeployment(tx *state.ReadTx, id string) (*structs.Deployment, error) {
	d := state.Deployment(tx, id)
	if d == nil {
		return nil, structs.NotFoundf("there is no deployment %q", structs.Cut(id, structs.MaxQuoted))
	}
	return d, nil
}

// List lists the deployments of the namespaces of a request.
func (d Deployments) List(
	tx *state.ReadTx, req *structs.QueryRequest, resp *structs.DeploymentListResponse,
) (err error) {
	rows := state.DeploymentsFrom(tx, req.RequestNamespace(), req.Prefix, query.Start(req))
	resp.Deployments, err = deploymentList.Page(rows, req, resp)
	return err
}

// Get reads a deployment. The error is not-found.
func (d Deployments) Get(
	tx *state.ReadTx, req *structs.DeploymentGetRequest, resp *structs.DeploymentGetResponse,
) (err error) {
	resp.Deployment, err = findDeployment(tx, req.DeploymentID)
	return err
}

// Allocations lists the allocations of a deployment, also the ended ones. It reads the rows of the job, and
// selects by the ID of the deployment.
func (d Deployments) Allocations(
	tx *state.ReadTx, req *structs.DeploymentGetRequest, resp *structs.AllocListResponse,
) error {
	row, err := findDeployment(tx, req.DeploymentID)
	if err != nil {
		return err
	}
	l := newAllocStubList(tx)
	l.Keep = func(a *structs.Allocation) bool { return a.DeploymentID == row.ID }
	rows := state.AllocsByJobFrom(tx, row.Namespace, row.JobID, query.Start(req))
	resp.Allocations, err = l.Page(rows, req, resp)
	return err
}

// OfJob lists the deployments of a job, the newest first. As in the dialect, a job that does not exist has
// none.
func (d Deployments) OfJob(
	tx *state.ReadTx, req *structs.JobGetRequest, resp *structs.DeploymentListResponse,
) error {
	ns := req.RequestNamespace()
	resp.Deployments = []*structs.Deployment{}
	job := state.Job(tx, ns, req.JobID)
	if job == nil {
		return nil
	}

	// The ID of a purged job may be used again. Its deployments do not belong to the new job.
	for row := range state.DeploymentsByJob(tx, ns, req.JobID) {
		if req.All || row.JobCreateIndex == job.CreateIndex {
			resp.Deployments = append(resp.Deployments, row)
		}
	}
	return nil
}

// Latest returns the newest deployment of a job, nil if it has none or does not exist.
func (d Deployments) Latest(
	tx *state.ReadTx, req *structs.JobGetRequest, resp *structs.DeploymentGetResponse,
) error {
	ns := req.RequestNamespace()

	job := state.Job(tx, ns, req.JobID)
	row := state.LatestDeployment(tx, ns, req.JobID)
	if job != nil && row != nil && row.JobCreateIndex == job.CreateIndex {
		resp.Deployment = row
	}
	return nil
}

// evaluationFor returns the deployment and the evaluation of its job that goes with a change of it. The
// evaluation enters the log with the change, so no crash of this server can separate them.
func (d Deployments) evaluationFor(id string, now int64) (*structs.Deployment, *structs.Evaluation, error) {
	tx := d.Store.Read()
	row, err := findDeployment(tx, id)
	if err != nil {
		return nil, nil, err
	}
	job := state.Job(tx, row.Namespace, row.JobID)
	// Without a job there is nothing to place, and the change of the deployment alone remains.
	if job == nil {
		return row, nil, nil
	}
	return row, evaluationOf(job, structs.TriggerDeployment, now), nil
}

// answer fills in the answer to a change of a deployment. The row is read again: the change may have ended
// the deployment, and have reverted the job.
func (d Deployments) answer(
	row *structs.Deployment, eval *structs.Evaluation, index uint64, resp *structs.DeploymentUpdateResponse,
) {
	tx := d.Store.Read()
	if now := state.Deployment(tx, row.ID); now != nil {
		resp.DeploymentModifyIndex = now.ModifyIndex
		resp.RevertedJobVersion = now.RevertedVersion
	}
	// The state function stores no evaluation where the change needs none.
	if eval != nil && state.Eval(tx, eval.ID) != nil {
		resp.EvalID = eval.ID
		resp.EvalCreateIndex = index
	}
}

// setStatus changes the state of a deployment.
func (d Deployments) setStatus(
	ctx context.Context,
	update structs.DeploymentStatusUpdate,
	options structs.WriteOptions,
	resp *structs.DeploymentUpdateResponse,
) (uint64, error) {
	row, eval, err := d.evaluationFor(update.DeploymentID, options.Now)
	if err != nil {
		return 0, err
	}

	index, err := fsm.Propose(ctx, d.Raft, fsm.DeploymentStatus, &structs.DeploymentStatusRequest{
		DeploymentStatusUpdate: update,
		Eval:                   eval,
		WriteOptions:           options,
	})
	if err == nil {
		d.answer(row, eval, index, resp)
	}

	return index, err
}

// Fail ends a deployment as failed. The error is not-found, or a precondition if it has ended.
func (d Deployments) Fail(
	ctx context.Context, req *structs.DeploymentFailRequest, resp *structs.DeploymentUpdateResponse,
) (uint64, error) {
	return d.setStatus(ctx, structs.DeploymentStatusUpdate{
		DeploymentID:      req.DeploymentID,
		Status:            structs.DeploymentFailed,
		StatusDescription: structs.DeploymentFailedByUser,
	}, req.WriteOptions, resp)
}

// Pause pauses a deployment, or resumes it. The error is not-found, or a precondition if it has ended.
func (d Deployments) Pause(
	ctx context.Context, req *structs.DeploymentPauseRequest, resp *structs.DeploymentUpdateResponse,
) (uint64, error) {
	status := structs.DeploymentRunning
	if req.Pause {
		status = structs.DeploymentPaused
	}
	return d.setStatus(ctx, structs.DeploymentStatusUpdate{
		DeploymentID: req.DeploymentID,
		Status:       status,
	}, req.WriteOptions, resp)
}

// Unblock does nothing, as in the dialect: only deployments of several regions are blocked. It rejects one
// that has ended.
func (d Deployments) Unblock(
	_ context.Context, req *structs.DeploymentFailRequest, resp *structs.DeploymentUpdateResponse,
) (uint64, error) {
	row, err := findDeployment(d.Store.Read(), req.DeploymentID)
	if err != nil {
		return 0, err
	}
	if !row.Active() {
		return 0, structs.Preconditionf("deployment %q has ended: it is %s", row.ID, row.Status)
	}
	d.answer(row, nil, 0, resp)
	return d.Store.Index(), nil
}

// Promote promotes the canaries of the groups that a request names, or of all.
func (d Deployments) Promote(
	ctx context.Context, req *structs.DeploymentPromoteRequest, resp *structs.DeploymentUpdateResponse,
) (uint64, error) {
	row, eval, err := d.evaluationFor(req.DeploymentID, req.Now)
	if err != nil {
		return 0, err
	}

	if len(req.Groups) > structs.MaxGroups {
		return 0, structs.Invalidf("the request names %d groups; at most %d are allowed",
			len(req.Groups), structs.MaxGroups)
	}

	// The copy leaves the request of a caller in this process as it was.
	own := *req
	own.Eval = eval
	var index uint64
	if isPromoted(row, req) && eval != nil {
		index, err = fsm.Propose(ctx, d.Raft, fsm.EvalUpdate, &structs.EvalUpdateRequest{
			Evals:        []*structs.Evaluation{eval},
			WriteOptions: req.WriteOptions,
		})
	} else {
		index, err = fsm.Propose(ctx, d.Raft, fsm.DeploymentPromote, &own)
	}
	if err == nil {
		d.answer(row, eval, index, resp)
	}

	return index, err
}

// isPromoted reports whether a promotion changes nothing: no group that it names has canaries that wait for
// it. As in the dialect, only the job is evaluated then.
func isPromoted(d *structs.Deployment, req *structs.DeploymentPromoteRequest) bool {
	// The state function rejects an ended deployment, with the reason.
	if !d.Active() {
		return false
	}
	if req.All {
		return !d.AwaitsPromotion()
	}
	return !slices.ContainsFunc(req.Groups, func(name string) bool {
		g := d.Group(name)
		// An unknown group is left to the state function, which rejects it.
		return g == nil || g.AwaitsPromotion()
	})
}

// SetHealth sets the health of allocations of a deployment in place of the nodes' reports.
func (d Deployments) SetHealth(
	ctx context.Context, req *structs.DeploymentHealthRequest, resp *structs.DeploymentUpdateResponse,
) (uint64, error) {
	row, eval, err := d.evaluationFor(req.DeploymentID, req.Now)
	if err != nil {
		return 0, err
	}

	n := len(req.HealthyAllocationIDs) + len(req.UnhealthyAllocationIDs)
	if n == 0 || n > structs.MaxAllocIDs {
		return 0, structs.Invalidf("the request names %d allocations; expected 1 to %d", n, structs.MaxAllocIDs)
	}

	own := *req
	own.Eval = eval
	index, err := fsm.Propose(ctx, d.Raft, fsm.DeploymentHealth, &own)
	if err == nil {
		d.answer(row, eval, index, resp)
	}

	return index, err
}

// SetStable sets whether a version of a job is stable. An automatic revert goes to the newest stable version.
func (j Jobs) SetStable(
	ctx context.Context, req *structs.JobStableRequest, resp *structs.JobStableResponse,
) (uint64, error) {
	tx := j.Store.Read()
	ns := req.RequestNamespace()
	job := state.Job(tx, ns, req.JobID)
	version := state.JobVersion(tx, ns, req.JobID, req.JobVersion)
	// The rows of a purged job with the same ID are not versions of this one.
	if job == nil || version == nil || !state.IsVersionOf(version, job) {
		return 0, state.NoVersion(ns, req.JobID, req.JobVersion)
	}

	index, err := fsm.Propose(ctx, j.Raft, fsm.JobStable, req)
	// It is the index of the job, and not of the version.
	job = state.Job(j.Store.Read(), ns, req.JobID)
	if job != nil {
		resp.JobModifyIndex = job.JobModifyIndex
	}
	return index, err
}
