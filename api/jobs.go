package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"berth/structs"
)

var jobList = NewEndpoint(Get, "/v1/jobs",
	ServeList(structs.JobList, nil,
		func(a *structs.JobListResponse) []*structs.JobListStub {
			return a.Jobs
		}))

// Jobs lists jobs.
func (c *Client) Jobs(ctx context.Context, q *Query) (
	[]*structs.JobListStub, *Meta, error,
) {
	return jobList.Fetch(ctx, c, "", q)
}

var jobGet = NewEndpoint(Get, "/v1/job/{id}",
	ServeMethod(structs.JobGet, bindJob,
		func(a *structs.JobGetResponse) *structs.Job {
			return a.Job
		}))

func bindJob(c *Call, q *structs.JobGetRequest) (err error) {
	q.JobID = c.ID()
	q.All, err = c.Flag("all")
	return err
}

// Job reads one job.
func (c *Client) Job(ctx context.Context, id string, q *Query) (
	*structs.Job, *Meta, error,
) {
	return jobGet.Fetch(ctx, c, id, q)
}

var jobSummary = NewEndpoint(Get, "/v1/job/{id}/summary",
	ServeMethod(structs.JobSummaryGet, bindJob,
		func(a *structs.JobSummaryResponse) *structs.JobSummary {
			return a.JobSummary
		}))

// JobSummary counts a job's allocations.
func (c *Client) JobSummary(ctx context.Context, id string, q *Query) (
	*structs.JobSummary, *Meta, error,
) {
	return jobSummary.Fetch(ctx, c, id, q)
}

// The dialect does not have this route.
var jobWhy = NewEndpoint(Get, "/v1/job/{id}/why",
	ServeMethod(structs.JobWhy, bindJob, Whole))

// JobWhy reads why a job does not run as its specification demands.
func (c *Client) JobWhy(ctx context.Context, id string, q *Query) (
	*structs.WhyResponse, *Meta, error,
) {
	return jobWhy.Fetch(ctx, c, id, q)
}

var jobAllocations = NewEndpoint(Get, "/v1/job/{id}/allocations",
	ServeList(structs.JobAllocations, bindJob, allocStubs))

// JobAllocations lists a job's allocations. all includes allocations of an earlier job with the same ID.
func (c *Client) JobAllocations(ctx context.Context, id string, all bool, q *Query) (
	[]*structs.AllocListStub, *Meta, error,
) {
	return jobAllocations.call(ctx, c, Request{ID: id, Query: withAll(q, all)})
}

// withAll returns the parameters of a query that may include the rows of an earlier job with the same ID.
func withAll(q *Query, all bool) url.Values {
	params := QueryValues(q)
	if all {
		params.Set("all", "true")
	}
	return params
}

var jobEvaluations = NewEndpoint(Get, "/v1/job/{id}/evaluations",
	ServeList(structs.JobEvaluations, bindJob, evaluations))

// JobEvaluations lists a job's evaluations.
func (c *Client) JobEvaluations(ctx context.Context, id string, q *Query) (
	[]*structs.Evaluation, *Meta, error,
) {
	return jobEvaluations.Fetch(ctx, c, id, q)
}

var jobVersions = NewEndpoint(Get, "/v1/job/{id}/versions",
	ServeMethod(structs.JobVersions, bindJobVersions,
		func(a *structs.JobVersionsResponse) *JobVersions {
			return &JobVersions{Versions: a.Versions, Diffs: a.Diffs}
		}))

// JobVersions has the stored versions of a job, newest first, and the difference of each to the one that
// JobDiffs names.
type JobVersions struct {
	Versions []*structs.Job
	Diffs    []*structs.JobDiff
}

func bindJobVersions(c *Call, q *structs.JobGetRequest) (err error) {
	q.JobID = c.ID()
	q.Diffs, err = c.Flag("diffs")
	q.DiffTag = c.Param("diff_tag")
	if err == nil && c.Param("diff_version") != "" {
		q.DiffVersion = new(uint64)
		*q.DiffVersion, err = numberParam[uint64](c, "diff_version", 64)
	}
	q.Diffs = q.Diffs || q.DiffTag != "" || q.DiffVersion != nil
	return err
}

// JobDiffs selects the differences of versions of a job: none, those to the version before each, or those to
// the version with a tag or a number.
type JobDiffs struct {
	On      bool
	Tag     string
	Version *uint64
}

// JobVersions lists the stored versions of a job, with their differences as d says.
func (c *Client) JobVersions(ctx context.Context, id string, d JobDiffs) (*JobVersions, error) {
	params := url.Values{"diffs": {strconv.FormatBool(d.On)}}
	setGiven(params, "diff_tag", d.Tag)
	if d.Version != nil {
		params.Set("diff_version", strconv.FormatUint(*d.Version, 10))
	}
	return jobVersions.Send(ctx, c, Request{ID: id, Query: params})
}

var jobSubmission = NewEndpoint(Get, "/v1/job/{id}/submission",
	ServeMethod(structs.JobSubmissionGet, bindJobSubmission,
		func(a *structs.JobSubmissionResponse) *structs.JobSubmission {
			return a.Submission
		}))

func bindJobSubmission(c *Call, q *structs.JobSubmissionRequest) (err error) {
	if c.Param("version") == "" {
		return structs.Invalidf("the parameter version is missing; expected the number of a version of the job")
	}
	q.JobID = c.ID()
	q.Version, err = numberParam[uint64](c, "version", 64)
	return err
}

// JobSubmission reads the source of a version of a job. The error is not-found if none is stored.
func (c *Client) JobSubmission(ctx context.Context, id string, version uint64) (
	*structs.JobSubmission, error,
) {
	number := strconv.FormatUint(version, 10)
	return jobSubmission.Send(ctx, c, Request{
		ID:    id,
		Query: url.Values{"version": {number}},
	})
}

var jobRegister = NewEndpoint[*structs.JobRegisterResponse](Put, "/v1/jobs", registerJob, HoldsJobs)

// registerJob also warns of the fields of the job that have no effect.
func registerJob(c *Call) (any, error) {
	serve := ServeMethod(structs.JobRegister, bindJobRegister, Whole)
	answer, err := serve(c)
	if a, ok := answer.(*structs.JobRegisterResponse); ok {
		c.ignored.addTo(&a.Warnings)
	}
	return answer, err
}

var _ = Handle(Put, "/v1/job/{id}", jobRegister.route.serve, HoldsJobs)

// jobBody is the body that registers a job. Submission is the source of the job.
type jobBody struct {
	Job            *structs.Job
	EnforceIndex   bool
	JobModifyIndex uint64
	PreserveCounts bool
	EvalPriority   int
	PolicyOverride bool // of a policy language that berth does not have
	Submission     *structs.JobSubmission
	DialectOptions
}

// DialectOptions has the parameters that the public client repeats in bodies.
type DialectOptions struct {
	Region    string
	Namespace string
	SecretID  json.RawMessage
}

// readJobBody reads a body that has a job.
func (c *Call) readJobBody() (*jobBody, error) {
	b := &jobBody{}
	return b, c.decodeJobBody(b, &b.Job)
}

func bindJobRegister(c *Call, req *structs.JobRegisterRequest) error {
	b, err := c.readJobBody()
	if err != nil {
		return err
	}

	if c.ID() != "" {
		err = c.SameID("job", b.Job.ID)
	}
	if err != nil {
		return err
	}

	req.Namespace = cmp.Or(b.Job.Namespace, req.Namespace, b.Namespace)
	req.Region = cmp.Or(req.Region, b.Region)
	b.Job.Namespace = structs.NamespaceOr(req.Namespace)
	req.Job = b.Job
	req.ConsulToken = b.Job.ConsulToken
	req.Job.ConsulToken = ""
	req.EnforceIndex = b.EnforceIndex
	req.JobModifyIndex = b.JobModifyIndex
	req.Submission = b.Submission
	req.PreserveCounts = b.PreserveCounts
	req.EvalPriority = b.EvalPriority
	return nil
}

// JobRegisterOptions has conditions for a registration. With EnforceIndex the stored job must have the
// JobModifyIndex ModifyIndex. 0 requires that no job is stored. PreserveCounts keeps the counts of the groups
// that the stored job has. EvalPriority is the priority of the evaluation, 0 for the job's. Submission is
// the source to store, or nil. ConsulToken proves the right to register the services of the job in Consul.
// The servers do not store it.
type JobRegisterOptions struct {
	EnforceIndex   bool
	ModifyIndex    uint64
	PreserveCounts bool
	EvalPriority   int
	Submission     *structs.JobSubmission
	ConsulToken    structs.Secret
}

// jobWithToken is a job in the body of a request. Other texts of a job have no token.
type jobWithToken struct {
	*structs.Job
	ConsulToken string `json:",omitempty"`
}

// JobRegister registers a job, or a new version of it, in the job's namespace. If the job names none, it is
// the client's.
func (c *Client) JobRegister(ctx context.Context, job *structs.Job, o JobRegisterOptions) (
	*structs.JobRegisterResponse, error,
) {
	var sent *jobWithToken
	if job != nil {
		sent = &jobWithToken{job, string(cmp.Or(o.ConsulToken, job.ConsulToken))}
	}
	body := struct {
		Job            *jobWithToken
		EnforceIndex   bool
		JobModifyIndex uint64
		PreserveCounts bool
		EvalPriority   int
		Submission     *structs.JobSubmission
	}{sent, o.EnforceIndex, o.ModifyIndex, o.PreserveCounts, o.EvalPriority, o.Submission}
	return jobRegister.Send(ctx, c, Request{Body: body})
}

var jobDeregister = NewEndpoint(Remove, "/v1/job/{id}",
	ServeMethod(structs.JobDeregister, bindJobDeregister, Whole))

func bindJobDeregister(c *Call, req *structs.JobDeregisterRequest) error {
	purge, err := c.Flag("purge")
	if err != nil {
		return err
	}
	undelayed, err := c.Flag("no_shutdown_delay")
	if err != nil {
		return err
	}
	force, err := c.Flag("force")
	if err != nil {
		return err
	}
	priority, err := numberParam[int32](c, "eval_priority", 32)
	req.JobID = c.ID()
	req.Purge = purge
	req.NoShutdownDelay = undelayed
	req.Force = force
	req.EvalPriority = int(priority)
	return err
}

// JobDeregisterOptions has the parameters of a stop. Purge also deletes the job. EvalPriority is the
// priority of the evaluation, 0 for the job's. NoShutdownDelay ends the tasks without their shutdown_delay.
// Force also stops CSI plugins that volumes need.
type JobDeregisterOptions struct {
	Purge           bool
	EvalPriority    int
	NoShutdownDelay bool
	Force           bool
}

// JobDeregister stops a job.
func (c *Client) JobDeregister(ctx context.Context, id string, o JobDeregisterOptions) (
	*structs.JobDeregisterResponse, error,
) {
	params := url.Values{
		"purge":             {strconv.FormatBool(o.Purge)},
		"eval_priority":     {strconv.Itoa(o.EvalPriority)},
		"no_shutdown_delay": {strconv.FormatBool(o.NoShutdownDelay)},
	}
	if o.Force {
		params.Set("force", "true")
	}
	return jobDeregister.Send(ctx, c, Request{ID: id, Query: params})
}

var jobEvaluate = NewEndpoint(Put, "/v1/job/{id}/evaluate",
	ServeMethod(structs.JobEvaluate, bindJobEvaluate, Whole))

func bindJobEvaluate(c *Call, req *structs.JobEvaluateRequest) error {
	var b struct {
		JobID       string
		EvalOptions struct{ ForceReschedule bool }
		DialectOptions
	}
	err := c.DecodeOptionalBody(&b)
	if err != nil {
		return err
	}
	req.JobID = c.ID()
	req.ForceReschedule = b.EvalOptions.ForceReschedule
	return c.SameID("job", b.JobID)
}

// JobEvaluate creates an evaluation of a job. forceReschedule replaces its failed allocations at once.
func (c *Client) JobEvaluate(ctx context.Context, id string, forceReschedule bool) (
	*structs.JobRegisterResponse, error,
) {
	var body any
	if forceReschedule {
		body = struct{ EvalOptions map[string]bool }{map[string]bool{"ForceReschedule": true}}
	}
	return jobEvaluate.Send(ctx, c, Request{ID: id, Body: body})
}

// Whole selects the whole response.
func Whole[Resp any](a *Resp) *Resp { return a }
