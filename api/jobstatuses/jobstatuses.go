// Package jobstatuses has the routes of the states of jobs with their allocations, each with the call of the
// client.
package jobstatuses

import (
	"cmp"
	"context"

	"berth/api"
	"berth/structs"
)

const path = "/v1/jobs/statuses"

var list = api.NewEndpoint(api.Get, path, api.ServeList(structs.JobStatuses, bindList, pick))

func pick(a *structs.JobStatusesResponse) []*structs.JobStatus { return a.Jobs }

func bindList(c *api.Call, q *structs.JobStatusesRequest) (err error) {
	q.IncludeChildren, err = c.Flag("include_children")
	return err
}

// List reads the states of jobs, the last changed job first. children includes the jobs that other jobs
// started.
func List(ctx context.Context, c *api.Client, children bool, q *api.Query) (
	[]*structs.JobStatus, *api.Meta, error,
) {
	params := api.QueryValues(q)
	if children {
		params.Set("include_children", "true")
	}
	return list.Page(ctx, c, api.Request{Query: params})
}

// The path is that of the list. The body names the jobs, so it may be a POST although it changes nothing.
var some = api.NewEndpoint(api.Put, path, api.ServeList(structs.JobStatuses, bindSome, pick))

func bindSome(c *api.Call, q *structs.JobStatusesRequest) error {
	var body struct {
		Jobs            []structs.JobName
		IncludeChildren bool
		api.DialectOptions
	}
	err := c.DecodeOptionalBody(&body)
	if err != nil {
		return err
	}
	err = bindList(c, q)
	q.Jobs = body.Jobs
	q.IncludeChildren = q.IncludeChildren || body.IncludeChildren
	widen(q)
	return err
}

// widen makes the namespace of a request that of all jobs that its body names: their own if they have one in
// common, otherwise all namespaces. The servers answer with the jobs that the caller may see.
func widen(q *structs.JobStatusesRequest) {
	own := structs.NamespaceOr(q.Namespace)
	if own == structs.AllNamespaces || len(q.Jobs) == 0 {
		return
	}
	named := map[string]bool{}
	for i := range q.Jobs {
		name := &q.Jobs[i]
		name.Namespace = cmp.Or(name.Namespace, own)
		named[name.Namespace] = true
	}
	q.Namespace = structs.AllNamespaces
	if len(named) == 1 {
		q.Namespace = q.Jobs[0].Namespace
	}
}

// Some reads the states of the jobs of the given names.
func Some(ctx context.Context, c *api.Client, names []structs.JobName, q *api.Query) (
	[]*structs.JobStatus, *api.Meta, error,
) {
	body := struct{ Jobs []structs.JobName }{names}
	return some.Page(ctx, c, api.Request{Query: api.QueryValues(q), Body: body})
}
