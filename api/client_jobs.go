package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"berth/structs"
)

// Jobs lists jobs.
func (c *Client) Jobs(ctx context.Context, q *Query) ([]*structs.JobListStub, *structs.QueryMeta, error) {
	return fetch[[]*structs.JobListStub](ctx, c, q, "jobs")
}

// Job reads one job.
func (c *Client) Job(ctx context.Context, id string, q *Query) (*structs.Job, *structs.QueryMeta, error) {
	return fetch[*structs.Job](ctx, c, q, "job", id)
}

// JobSummary counts a job's allocations.
func (c *Client) JobSummary(ctx context.Context, id string, q *Query) (*structs.JobSummary, *structs.QueryMeta, error) {
	return fetch[*structs.JobSummary](ctx, c, q, "job", id, "summary")
}

// JobAllocations lists a job's allocations.
func (c *Client) JobAllocations(ctx context.Context, id string, q *Query) ([]*structs.AllocListStub, *structs.QueryMeta, error) {
	return fetch[[]*structs.AllocListStub](ctx, c, q, "job", id, "allocations")
}

// JobEvaluations lists a job's evaluations.
func (c *Client) JobEvaluations(ctx context.Context, id string, q *Query) ([]*structs.Evaluation, *structs.QueryMeta, error) {
	return fetch[[]*structs.Evaluation](ctx, c, q, "job", id, "evaluations")
}

// JobVersions lists the versions of a job that are kept, newest first.
func (c *Client) JobVersions(ctx context.Context, id string, q *Query) ([]*structs.Job, *structs.QueryMeta, error) {
	answer, meta, err := fetch[jobVersionsAnswer](ctx, c, q, "job", id, "versions")
	return answer.Versions, meta, err
}

// JobRegisterOptions are what may go with a job. With EnforceIndex the stored job's JobModifyIndex must be
// ModifyIndex (0: there must be none).
type JobRegisterOptions struct {
	EnforceIndex bool
	ModifyIndex  uint64
}

// JobRegister registers a job.
func (c *Client) JobRegister(ctx context.Context, job *structs.Job, o JobRegisterOptions) (*structs.JobRegisterResponse, error) {
	body := struct {
		Job            *structs.Job
		EnforceIndex   bool
		JobModifyIndex uint64
	}{job, o.EnforceIndex, o.ModifyIndex}
	return send[*structs.JobRegisterResponse](ctx, c, http.MethodPut, body, "jobs")
}

// JobDeregister stops a job; purge also forgets it.
func (c *Client) JobDeregister(ctx context.Context, id string, purge bool) (*structs.JobDeregisterResponse, error) {
	return sendWith[*structs.JobDeregisterResponse](ctx, c, request{
		method: http.MethodDelete, path: []string{"v1", "job", id}, query: url.Values{"purge": {strconv.FormatBool(purge)}},
	})
}

// JobEvaluate asks for a new evaluation of a job.
func (c *Client) JobEvaluate(ctx context.Context, id string) (*structs.JobRegisterResponse, error) {
	return send[*structs.JobRegisterResponse](ctx, c, http.MethodPut, nil, "job", id, "evaluate")
}

// JobParse has the agent turn a job file into a job.
func (c *Client) JobParse(ctx context.Context, hcl string, canonicalize bool) (*structs.Job, error) {
	body := struct {
		JobHCL       string
		Canonicalize bool
	}{hcl, canonicalize}
	return send[*structs.Job](ctx, c, http.MethodPut, body, "jobs", "parse")
}

// Allocations lists allocations.
func (c *Client) Allocations(ctx context.Context, q *Query) ([]*structs.AllocListStub, *structs.QueryMeta, error) {
	return fetch[[]*structs.AllocListStub](ctx, c, q, "allocations")
}

// Allocation reads one allocation with its job.
func (c *Client) Allocation(ctx context.Context, id string, q *Query) (*structs.Allocation, *structs.QueryMeta, error) {
	return fetch[*structs.Allocation](ctx, c, q, "allocation", id)
}

// AllocStop stops an allocation and lets the scheduler place it anew.
func (c *Client) AllocStop(ctx context.Context, id string) (*structs.AllocStopResponse, error) {
	return send[*structs.AllocStopResponse](ctx, c, http.MethodPut, nil, "allocation", id, "stop")
}

// LogOptions say which log, and from where. Offset counts bytes from the start or, with FromEnd, back
// from the end.
type LogOptions struct {
	Task    string
	Stderr  bool
	Follow  bool
	FromEnd bool
	Offset  int64
}

// AllocLogs streams a task's log as plain bytes; the caller closes it.
func (c *Client) AllocLogs(ctx context.Context, id string, o LogOptions) (io.ReadCloser, error) {
	kind, origin := "stdout", "start"
	if o.Stderr {
		kind = "stderr"
	}
	if o.FromEnd {
		origin = "end"
	}
	resp, err := c.open(ctx, request{
		method: http.MethodGet, path: []string{"v1", "client", "fs", "logs", id},
		query: url.Values{
			"task": {o.Task}, "type": {kind}, "origin": {origin}, "plain": {"true"},
			"offset": {strconv.FormatInt(o.Offset, 10)}, "follow": {strconv.FormatBool(o.Follow)},
		},
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Evaluations lists evaluations.
func (c *Client) Evaluations(ctx context.Context, q *Query) ([]*structs.Evaluation, *structs.QueryMeta, error) {
	return fetch[[]*structs.Evaluation](ctx, c, q, "evaluations")
}

// Evaluation reads one evaluation.
func (c *Client) Evaluation(ctx context.Context, id string, q *Query) (*structs.Evaluation, *structs.QueryMeta, error) {
	return fetch[*structs.Evaluation](ctx, c, q, "evaluation", id)
}

// EvalAllocations lists the allocations that an evaluation made or changed.
func (c *Client) EvalAllocations(ctx context.Context, id string, q *Query) ([]*structs.AllocListStub, *structs.QueryMeta, error) {
	return fetch[[]*structs.AllocListStub](ctx, c, q, "evaluation", id, "allocations")
}
