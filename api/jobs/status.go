package jobs

import (
	"cmp"
	"context"

	"berth/api"
	"berth/structs"
)

const statusPath = "/v1/jobs/statuses"

var statusList = api.NewEndpoint(&table, api.Get, statusPath,
	api.ServeList(structs.JobStatuses, bindStatuses, pickStatuses))

func pickStatuses(a *structs.JobStatusesResponse) []*structs.JobStatus { return a.Jobs }

func bindStatuses(c *api.Call, q *structs.JobStatusesRequest) (err error) {
	q.IncludeChildren, err = c.Flag("include_children")
	return err
}

// ListStatuses reads the states of jobs, the last changed job first. children includes the jobs that other
// jobs started.
func ListStatuses(ctx context.Context, c *api.Client, children bool, q *api.Query) (
	[]*structs.JobStatus, *api.Meta, error,
) {
	params := api.QueryValues(q)
	if children {
		params.Set("include_children", "true")
	}
	return statusList.Page(ctx, c, api.Request{Query: params})
}

// The list has the same path. The body names the jobs, so it may be a POST although it changes nothing.
var someStatuses = api.NewEndpoint(&table, api.Put, statusPath,
	api.ServeList(structs.JobStatuses, bindSomeStatuses, pickStatuses))

func bindSomeStatuses(c *api.Call, q *structs.JobStatusesRequest) error {
	var body struct {
		Jobs            []structs.JobName
		IncludeChildren bool
		api.DialectOptions
	}
	err := c.DecodeOptionalBody(&body)
	if err != nil {
		return err
	}
	err = bindStatuses(c, q)
	q.Jobs = body.Jobs
	q.IncludeChildren = q.IncludeChildren || body.IncludeChildren
	widenNamespaces(q)
	return err
}

// widenNamespaces sets the namespace of a request to the one that all jobs of its body have in common,
// otherwise all namespaces. The servers answer with the jobs that the caller may see.
func widenNamespaces(q *structs.JobStatusesRequest) {
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

// SomeStatuses reads the states of the jobs of the given names.
func SomeStatuses(ctx context.Context, c *api.Client, names []structs.JobName, q *api.Query) (
	[]*structs.JobStatus, *api.Meta, error,
) {
	body := struct{ Jobs []structs.JobName }{names}
	return someStatuses.Page(ctx, c, api.Request{Query: api.QueryValues(q), Body: body})
}
