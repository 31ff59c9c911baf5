package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/internal/codec"
	"berth/internal/keylock"
	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/trust"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
	"berth/structs/validate"
	"berth/structs/validate/field"
)

// Jobs serve Job.
type Jobs struct {
	*core.Server
	locks *keylock.Map // held while a job is registered, by namespace and ID
}

// NewJobs makes the procedures of jobs.
func NewJobs(s *core.Server) Jobs {
	return Jobs{Server: s, locks: s.RowLocks()}
}

// evaluationOf returns a request to bring the placement of a job up to date.
func evaluationOf(
	job *structs.Job,
	trigger string,
	now int64,
) *structs.Evaluation {
	e := structs.NewEval(job, trigger, now)
	e.ID = structs.NewID()
	return e
}

// Register records a new version of a job and requests its evaluation. Warnings come with the answer.
func (j Jobs) Register(
	ctx context.Context,
	req *structs.JobRegisterRequest,
	resp *structs.JobRegisterResponse,
) (uint64, error) {
	return j.registerFor(ctx, structs.TriggerJobRegister, req, resp)
}

// registerFor is Register, with the reason of the evaluation.
func (j Jobs) registerFor(
	ctx context.Context,
	trigger string,
	req *structs.JobRegisterRequest,
	resp *structs.JobRegisterResponse,
) (uint64, error) {
	job, warnings, err := j.admitRegistration(ctx, trigger, req)
	if err != nil {
		return 0, err
	}

	// Two registrations of a job in one entry would have one index: EnforceIndex could not tell them apart.
	unlock, err := core.AwaitTurn(ctx, j.locks, job.Namespace+"/"+job.ID)
	if err != nil {
		return 0, err
	}
	defer unlock()

	index, err := fsm.Propose(ctx, j.Raft, fsm.JobRegister, req.WithoutToken())
	if err != nil {
		return 0, err
	}

	// The index is read from the row: a registration that changed nothing leaves the former one.
	tx := j.Store.Read()
	stored := state.Job(tx, job.Namespace, job.ID)
	if stored != nil {
		resp.JobModifyIndex = stored.JobModifyIndex
	}

	j.answerRegistration(resp, req.Eval, index)
	resp.Warnings = joinWarnings(warnings, missingVolumes(tx, job), missingDrivers(tx, job),
		boundMemory(tx, job), largeMemory(tx, job), trust.Warning(tx, job), namespace.QuotaWarning(tx, job),
		csi.JobVolumeWarning(tx, job))
	return index, nil
}

// admitRegistration checks a registration and gives the request the form of its log entry. It returns the job
// of the entry, and the warnings that need no state.
func (j Jobs) admitRegistration(
	ctx context.Context, trigger string, req *structs.JobRegisterRequest,
) (job *structs.Job, warnings string, err error) {
	err = j.rejectRegistration()
	if err != nil {
		return nil, "", err
	}

	// The warnings are about the job as the user wrote it: admitJob fills in values that no user has given.
	job, err = j.admitJob(req.Job, req.RequestNamespace())
	if err != nil {
		return nil, "", err
	}
	warnings = field.JoinFaults(validate.JobWarnings(req.Job))

	dropped, err := j.checkSource(req)
	// A scaling changes the count alone, so the rights of a submitter and the entries of gateways are those
	// of the version before.
	if err == nil && trigger == structs.TriggerJobRegister {
		err = j.checkSubmitter(ctx, job, req.ConsulToken)
	}
	if err != nil {
		return nil, "", err
	}

	// It is the time of this server, as for all writes.
	job.SubmitTime = req.Now
	req.Job = job
	req.Eval = registrationEval(job, trigger, req.Now)

	err = req.Eval.SetPriority(req.EvalPriority)
	if err == nil {
		err = j.checkStored(req, job)
	}

	// The counts that stay may not fit the limits of the new version, so the job is checked with them too.
	if err == nil && req.PreserveCounts {
		err = validate.Job(withCounts(j.Store.Read(), req, job))
	}

	ruled := ""
	if err == nil {
		ruled, err = j.applyRules(ctx, j.Store.Read(), withCounts(j.Store.Read(), req, job))
	}

	// Consul comes last: a job that is rejected leaves nothing there.
	if err == nil && trigger == structs.TriggerJobRegister {
		err = j.setGateways(ctx, job)
	}
	return job, joinWarnings(warnings, dropped, ruled), err
}

// checkStored checks a new version of a job against what is stored. It rejects one without a plugin that
// volumes need. The state function checks the same again. This gives the error without a log entry.
func (j Jobs) checkStored(req *structs.JobRegisterRequest, version *structs.Job) error {
	tx := j.Store.Read()
	err := state.CheckRegistration(tx, req, version)
	stored := state.Job(tx, version.Namespace, version.ID)
	if err != nil || stored == nil {
		return err
	}
	return checkPluginUse(tx, stored, version)
}

// checkCanaries rejects canaries of a new version that could never get their volumes. Canaries run beside the
// allocations that they replace, so both need the volume at once.
func (j Jobs) checkCanaries(version *structs.Job) error {
	why := state.CanaryConflict(j.Store.Read(), version, version.TaskGroups)
	if why != "" {
		return structs.Preconditionf("job %q: %s", version.ID, why)
	}
	return nil
}

// copyJob copies a job with its groups and tasks, because defaults are written into these.
func copyJob(job *structs.Job) (*structs.Job, error) {
	b, err := codec.Encode(job)
	// The bound is on the encoded job, which is in the log entry and in a row of each version.
	if len(b) > structs.MaxJobBytes {
		return nil, structs.Invalidf(
			"the job has %d bytes; at most %d are allowed",
			len(b), structs.MaxJobBytes)
	}
	// A decoded copy shares nothing with the request, which a caller in this process keeps.
	if err == nil {
		job = new(structs.Job)
		err = codec.Decode(b, job)
	}
	if err != nil {
		return nil, structs.Invalidf("the job cannot be stored: %w", err)
	}
	return job, nil
}

// missingVolumes warns of volumes that a job names and that are not registered yet. That is allowed: the
// job waits for them. The warning names the first of many.
func missingVolumes(tx *state.ReadTx, job *structs.Job) string {
	var missing []string
	for _, g := range job.TaskGroups {
		for alias, v := range g.Volumes {
			if !v.NeedsClaim() || storage.IsClassRequest(v) {
				continue
			}

			// Per allocation, the ID has the number of the allocation at its end.
			count := 1
			if v.PerAlloc {
				count = g.Count
			}

			for i := range count {
				id := v.VolumeID(i, "")
				row := csi.Volume(tx, job.Namespace, id)
				// A volume whose secrets are missing lets the job wait too.
				if row != nil {
					_, err := volumesecrets.Variable(tx, row)
					if err != nil {
						missing = append(missing, fmt.Sprintf("group %q, %v", g.Name, err))
					}

					continue
				}

				missing = append(missing, fmt.Sprintf(
					"group %q, volume %q: there is no volume %q in namespace %q yet",
					g.Name, alias, id, job.Namespace))
				// The first missing volume of a request stands for the others.
				break
			}
		}
	}

	// The groups are a list, but their volumes are a map, whose order changes.
	slices.Sort(missing)
	return field.JoinFaults(missing)
}

// Deregister stops a job. As in the dialect, it succeeds for a job that does not exist: a client that repeats
// it has reached its aim.
func (j Jobs) Deregister(
	ctx context.Context,
	req *structs.JobDeregisterRequest,
	resp *structs.JobDeregisterResponse,
) (uint64, error) {
	if req.JobID == "" {
		return 0, structs.Invalidf("JobID: nothing is given; expected the ID of a job")
	}

	tx := j.Store.Read()
	job := state.Job(tx, req.RequestNamespace(), req.JobID)
	if job == nil { // no log entry shows whether this server still leads, and knows all jobs
		return j.Store.Index(), j.Raft.VerifyLeader()
	}

	// With Force an operator accepts that volumes stay mounted without the plugin.
	if !req.Force {
		err := checkPluginUse(tx, job, nil)
		if err != nil {
			return 0, err
		}
	}

	req.Eval = evaluationOf(job, structs.TriggerJobDeregister, req.Now)
	err := req.Eval.SetPriority(req.EvalPriority)
	if err != nil {
		return 0, err
	}

	index, err := fsm.Propose(ctx, j.Raft, fsm.JobDeregister, req)
	resp.EvalID = req.Eval.ID
	resp.EvalCreateIndex = index
	resp.JobModifyIndex = index
	return index, err
}

// Evaluate requests an evaluation of a job. The error is not-found, or a precondition for one that only
// starts others.
func (j Jobs) Evaluate(
	ctx context.Context,
	req *structs.JobEvaluateRequest,
	resp *structs.JobRegisterResponse,
) (uint64, error) {
	job, err := findJob(j.Store.Read(), req.RequestNamespace(), req.JobID)
	if err != nil {
		return 0, err
	}

	if job.StartsOthers() {
		return 0, structs.Preconditionf("job %q runs nothing itself: evaluate one of its children", job.ID)
	}

	e := evaluationOf(job, structs.TriggerManual, req.Now)
	var index uint64
	// Attempts to reschedule count in the rows, so this one needs a command of its own.
	if req.ForceReschedule {
		req.Eval = e
		index, err = fsm.Propose(ctx, j.Raft, fsm.JobReschedule, req)
	} else {
		index, err = fsm.Propose(ctx, j.Raft, fsm.EvalUpdate, &structs.EvalUpdateRequest{
			Evals:        []*structs.Evaluation{e},
			WriteOptions: req.WriteOptions,
		})
	}

	resp.EvalID = e.ID
	resp.EvalCreateIndex = index
	resp.JobModifyIndex = job.JobModifyIndex
	return index, err
}

func noJob(ns, id string) error {
	return structs.NotFoundf("there is no job %q in namespace %q", id, ns)
}

// findJob returns the newest version of a job, also of one that is stopped. The error is not-found.
func findJob(tx *state.ReadTx, ns, id string) (*structs.Job, error) {
	job := state.Job(tx, ns, id)
	if job == nil {
		return nil, noJob(ns, id)
	}
	return job, nil
}

// Get reads the newest version of a job. The error is not-found.
func (j Jobs) Get(
	tx *state.ReadTx,
	req *structs.JobGetRequest,
	resp *structs.JobGetResponse,
) (err error) {
	resp.Job, err = findJob(tx, req.RequestNamespace(), req.JobID)
	return err
}

// List lists the jobs of the namespaces of a request by their IDs, as stubs.
func (j Jobs) List(
	tx *state.ReadTx,
	req *structs.QueryRequest,
	resp *structs.JobListResponse,
) (err error) {
	rows := state.JobsFrom(tx,
		req.RequestNamespace(),
		req.Prefix,
		query.Start(req))
	resp.Jobs, err = newJobStubList(tx).Page(rows, req, resp)
	return err
}

// OfPool lists the jobs that name the pool. So the pool all has the jobs that may run on every node, and not
// all jobs.
func (Jobs) OfPool(
	tx *state.ReadTx,
	req *cluster.NodePoolGetRequest,
	resp *structs.JobListResponse,
) error {
	_, err := core.FindNodePool(tx, req.Name)
	if err != nil {
		return err
	}

	l := newJobStubList(tx)
	l.Keep = func(j *structs.Job) bool {
		return cmp.Or(j.NodePool, structs.DefaultNodePool) == req.Name
	}

	rows := state.JobsFrom(tx,
		req.RequestNamespace(),
		req.Prefix,
		query.Start(req))
	resp.Jobs, err = l.Page(rows, req, resp)
	return err
}

func newJobStubList(tx *state.ReadTx) query.List[structs.Job, structs.JobListStub] {
	return query.List[structs.Job, structs.JobListStub]{
		Key: jobKey,
		Stub: func(job *structs.Job, s *structs.JobListStub) {
			*s = jobStub(tx, job)
		},
	}
}

// jobKey has both parts of the key, because a list may have several namespaces.
func jobKey(j *structs.Job) []string {
	return []string{j.Namespace, j.ID}
}

func jobStub(tx *state.ReadTx, j *structs.Job) structs.JobListStub {
	return structs.JobListStub{
		ID:                j.ID,
		ParentID:          j.ParentID,
		Periodic:          j.Periodic != nil,
		ParameterizedJob:  j.Parameterized(),
		Name:              j.Name,
		Namespace:         j.Namespace,
		Datacenters:       j.Datacenters,
		NodePool:          j.NodePool,
		Type:              j.Type,
		Priority:          j.Priority,
		Stop:              j.Stop,
		Status:            j.Status,
		StatusDescription: j.StatusDescription,
		JobSummary:        state.JobSummary(tx, j),
		CreateIndex:       j.CreateIndex,
		ModifyIndex:       j.ModifyIndex,
		JobModifyIndex:    j.JobModifyIndex,
		SubmitTime:        j.SubmitTime,
		Meta:              j.Meta,
	}
}

// Summary counts the allocations of a job by their status. The error is not-found.
func (j Jobs) Summary(
	tx *state.ReadTx,
	req *structs.JobGetRequest,
	resp *structs.JobSummaryResponse,
) error {
	job, err := findJob(tx, req.RequestNamespace(), req.JobID)
	if err != nil {
		return err
	}
	resp.JobSummary = state.JobSummary(tx, job)
	return nil
}

// Allocations also lists the allocations of a deleted job. Without All, it leaves out allocations of an
// earlier job with the same ID.
func (j Jobs) Allocations(
	tx *state.ReadTx,
	req *structs.JobGetRequest,
	resp *structs.AllocListResponse,
) (err error) {
	ns := req.RequestNamespace()
	job := state.Job(tx, ns, req.JobID)
	l := newAllocStubList(tx)
	// Allocations of an earlier job have lower indexes than the present one.
	l.Keep = func(a *structs.Allocation) bool {
		return req.All || job == nil || a.CreateIndex >= job.CreateIndex
	}
	rows := state.AllocsByJobFrom(tx, ns, req.JobID, query.Start(req))
	resp.Allocations, err = l.Page(rows, req, resp)
	return err
}

// Evaluations lists the evaluations of a job.
func (j Jobs) Evaluations(
	tx *state.ReadTx,
	req *structs.JobGetRequest,
	resp *structs.EvalListResponse,
) (err error) {
	rows := state.EvalsByJob(tx, req.RequestNamespace(), req.JobID)
	rows = query.Sorted(rows, compareEvals, req)
	resp.Evaluations, err = evalList.Page(rows, req, resp)
	return err
}
