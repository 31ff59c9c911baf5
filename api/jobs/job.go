// Package jobs has the routes about jobs, each with the call of the client: their registration, versions,
// plans, children and actions, and their deployments, evaluations, scaling policies and services.
package jobs

import (
	"cmp"
	"context"
	"net/url"
	"strconv"

	"berth/api"
	"berth/api/allocs"
	"berth/structs"
)

// table has the routes of this area.
var table api.Table

// Routes returns the routes of this area.
func Routes() []*api.Route { return table.Routes() }

var jobList = api.NewEndpoint(&table, api.Get, "/v1/jobs",
	api.ServeList(structs.JobList, nil,
		func(a *structs.JobListResponse) []*structs.JobListStub {
			return a.Jobs
		}))

// List lists jobs.
func List(ctx context.Context, c *api.Client, q *api.Query) (
	[]*structs.JobListStub, *api.Meta, error,
) {
	return jobList.Fetch(ctx, c, "", q)
}

var jobGet = api.NewEndpoint(&table, api.Get, "/v1/job/{id}",
	api.ServeMethod(structs.JobGet, bindJob,
		func(a *structs.JobGetResponse) *structs.Job {
			return a.Job
		}))

func bindJob(c *api.Call, q *structs.JobGetRequest) (err error) {
	q.JobID = c.ID()
	q.All, err = c.Flag("all")
	return err
}

// Get reads one job.
func Get(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.Job, *api.Meta, error,
) {
	return jobGet.Fetch(ctx, c, id, q)
}

var jobSummary = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/summary",
	api.ServeMethod(structs.JobSummaryGet, bindJob,
		func(a *structs.JobSummaryResponse) *structs.JobSummary {
			return a.JobSummary
		}))

// Summary counts a job's allocations.
func Summary(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.JobSummary, *api.Meta, error,
) {
	return jobSummary.Fetch(ctx, c, id, q)
}

// The dialect does not have this route.
var jobWhy = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/why",
	api.ServeMethod(structs.JobWhy, bindJob, api.Whole))

// Why reads why a job does not run as its specification demands.
func Why(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.WhyResponse, *api.Meta, error,
) {
	return jobWhy.Fetch(ctx, c, id, q)
}

var jobAllocations = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/allocations",
	api.ServeList(structs.JobAllocations, bindJob, allocs.Stubs))

// AllocationsOf lists a job's allocations. all includes allocations of an earlier job with the same ID.
func AllocationsOf(ctx context.Context, c *api.Client, id string, all bool, q *api.Query) (
	[]*structs.AllocListStub, *api.Meta, error,
) {
	return jobAllocations.Page(ctx, c, api.Request{ID: id, Query: withAll(q, all)})
}

// withAll returns the parameters of a query that may include the rows of an earlier job with the same ID.
func withAll(q *api.Query, all bool) url.Values {
	params := api.QueryValues(q)
	if all {
		params.Set("all", "true")
	}
	return params
}

var jobEvaluations = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/evaluations",
	api.ServeList(structs.JobEvaluations, bindJob, listedEvaluations))

// EvaluationsOf lists a job's evaluations.
func EvaluationsOf(ctx context.Context, c *api.Client, id string, q *api.Query) (
	[]*structs.Evaluation, *api.Meta, error,
) {
	return jobEvaluations.Fetch(ctx, c, id, q)
}

var jobVersions = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/versions",
	api.ServeMethod(structs.JobVersions, bindJobVersions,
		func(a *structs.JobVersionsResponse) *VersionList {
			return &VersionList{Versions: a.Versions, Diffs: a.Diffs}
		}))

// VersionList has the stored versions of a job, newest first, and the difference of each to the one that
// Diffs names.
type VersionList struct {
	Versions []*structs.Job
	Diffs    []*structs.JobDiff
}

func bindJobVersions(c *api.Call, q *structs.JobGetRequest) (err error) {
	q.JobID = c.ID()
	q.Diffs, err = c.Flag("diffs")
	q.DiffTag = c.Param("diff_tag")
	if err == nil && c.Param("diff_version") != "" {
		q.DiffVersion = new(uint64)
		*q.DiffVersion, err = api.NumberParam[uint64](c, "diff_version", 64)
	}
	q.Diffs = q.Diffs || q.DiffTag != "" || q.DiffVersion != nil
	return err
}

// Diffs selects the differences of versions of a job: none, those to the version before each, or those to
// the version with a tag or a number.
type Diffs struct {
	On      bool
	Tag     string
	Version *uint64
}

// ListVersions lists the stored versions of a job, with their differences as d says.
func ListVersions(ctx context.Context, c *api.Client, id string, d Diffs) (*VersionList, error) {
	params := url.Values{"diffs": {strconv.FormatBool(d.On)}}
	api.SetGiven(params, "diff_tag", d.Tag)
	if d.Version != nil {
		params.Set("diff_version", strconv.FormatUint(*d.Version, 10))
	}
	return jobVersions.Send(ctx, c, api.Request{ID: id, Query: params})
}

var jobSubmission = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/submission",
	api.ServeMethod(structs.JobSubmissionGet, bindJobSubmission,
		func(a *structs.JobSubmissionResponse) *structs.JobSubmission {
			return a.Submission
		}))

func bindJobSubmission(c *api.Call, q *structs.JobSubmissionRequest) (err error) {
	if c.Param("version") == "" {
		return structs.Invalidf("the parameter version is missing; expected the number of a version of the job")
	}
	q.JobID = c.ID()
	q.Version, err = api.NumberParam[uint64](c, "version", 64)
	return err
}

// GetSubmission reads the source of a version of a job. The error is not-found if none is stored.
func GetSubmission(ctx context.Context, c *api.Client, id string, version uint64) (
	*structs.JobSubmission, error,
) {
	number := strconv.FormatUint(version, 10)
	return jobSubmission.Send(ctx, c, api.Request{
		ID:    id,
		Query: url.Values{"version": {number}},
	})
}

var jobRegister = api.NewEndpoint[*structs.JobRegisterResponse](&table, api.Put, "/v1/jobs",
	registerJob, api.HoldsJobs)

// registerJob also warns of the fields of the job that have no effect.
func registerJob(c *api.Call) (any, error) {
	serve := api.ServeMethod(structs.JobRegister, bindJobRegister, api.Whole)
	answer, err := serve(c)
	if a, ok := answer.(*structs.JobRegisterResponse); ok {
		c.Ignored.AddTo(&a.Warnings)
	}
	return answer, err
}

var _ = jobRegister.At(api.Put, "/v1/job/{id}", api.HoldsJobs)

// jobBody is the body that registers a job. Submission is the source of the job.
type jobBody struct {
	Job            *structs.Job
	EnforceIndex   bool
	JobModifyIndex uint64
	PreserveCounts bool
	EvalPriority   int
	PolicyOverride bool // of a policy language that berth does not have
	Submission     *structs.JobSubmission
	api.DialectOptions
}

// readJobBody reads a body that has a job.
func readJobBody(c *api.Call) (*jobBody, error) {
	b := &jobBody{}
	return b, c.DecodeJobBody(b, &b.Job)
}

func bindJobRegister(c *api.Call, req *structs.JobRegisterRequest) error {
	b, err := readJobBody(c)
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

// RegisterOptions has conditions for a registration. With EnforceIndex the stored job must have the
// JobModifyIndex ModifyIndex. 0 requires that no job is stored. PreserveCounts keeps the counts of the groups
// that the stored job has. EvalPriority is the priority of the evaluation, 0 for the job's. Submission is
// the source to store, or nil. ConsulToken proves the right to register the services of the job in Consul.
// The servers do not store it.
type RegisterOptions struct {
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

// Register registers a job, or a new version of it, in the job's namespace. If the job names none, it is
// the client's.
func Register(ctx context.Context, c *api.Client, job *structs.Job, o RegisterOptions) (
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
	return jobRegister.Send(ctx, c, api.Request{Body: body})
}

var jobDeregister = api.NewEndpoint(&table, api.Remove, "/v1/job/{id}",
	api.ServeMethod(structs.JobDeregister, bindJobDeregister, api.Whole))

func bindJobDeregister(c *api.Call, req *structs.JobDeregisterRequest) error {
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
	priority, err := api.NumberParam[int32](c, "eval_priority", 32)
	req.JobID = c.ID()
	req.Purge = purge
	req.NoShutdownDelay = undelayed
	req.Force = force
	req.EvalPriority = int(priority)
	return err
}

// DeregisterOptions has the parameters of a stop. Purge also deletes the job. EvalPriority is the
// priority of the evaluation, 0 for the job's. NoShutdownDelay ends the tasks without their shutdown_delay.
// Force also stops CSI plugins that volumes need.
type DeregisterOptions struct {
	Purge           bool
	EvalPriority    int
	NoShutdownDelay bool
	Force           bool
}

// Deregister stops a job.
func Deregister(ctx context.Context, c *api.Client, id string, o DeregisterOptions) (
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
	return jobDeregister.Send(ctx, c, api.Request{ID: id, Query: params})
}

var jobEvaluate = api.NewEndpoint(&table, api.Put, "/v1/job/{id}/evaluate",
	api.ServeMethod(structs.JobEvaluate, bindJobEvaluate, api.Whole))

func bindJobEvaluate(c *api.Call, req *structs.JobEvaluateRequest) error {
	var b struct {
		JobID       string
		EvalOptions struct{ ForceReschedule bool }
		api.DialectOptions
	}
	err := c.DecodeOptionalBody(&b)
	if err != nil {
		return err
	}
	req.JobID = c.ID()
	req.ForceReschedule = b.EvalOptions.ForceReschedule
	return c.SameID("job", b.JobID)
}

// Evaluate creates an evaluation of a job. forceReschedule replaces its failed allocations at once.
func Evaluate(ctx context.Context, c *api.Client, id string, forceReschedule bool) (
	*structs.JobRegisterResponse, error,
) {
	var body any
	if forceReschedule {
		body = struct{ EvalOptions map[string]bool }{map[string]bool{"ForceReschedule": true}}
	}
	return jobEvaluate.Send(ctx, c, api.Request{ID: id, Body: body})
}
