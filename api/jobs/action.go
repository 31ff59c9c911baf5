package jobs

import (
	"context"
	"net/url"
	"strings"

	"berth/api"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/jobaction"
)

var actionList = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/actions",
	api.ServeMethod(structs.JobGet,
		api.WithID(func(q *structs.JobGetRequest, id string) { q.JobID = id }),
		func(a *structs.JobGetResponse) []*jobaction.JobAction { return jobaction.List(a.Job) }))

// ListActions reads the actions of a job.
func ListActions(ctx context.Context, c *api.Client, jobID string, q *api.Query) (
	[]*jobaction.JobAction, *api.Meta, error,
) {
	return actionList.Fetch(ctx, c, jobID, q)
}

// actionSession is for callers who may run commands in the namespace. The command of an allocation then needs
// the rights of alloc exec there.
var actionSession = table.Handle(api.Get, "/v1/job/{id}/action",
	serveActionSession, api.Streams, leadsOn, api.Needs(access.NeedsAllocExec))

func leadsOn(r *api.Route) { r.LeadsOn = true }

func serveActionSession(c *api.Call) (any, error) {
	at := jobaction.Target{
		AllocID:   c.Param("allocID"),
		Task:      c.Param("task"),
		Action:    c.Param("action"),
		Namespace: c.Param("namespace"),
		JobID:     c.ID(),
		Group:     c.Param("group"),
	}

	var err error
	switch {
	case at.Action == "":
		err = structs.Invalidf("the parameter action is missing; expected the name of an action of the job")
	case at.AllocID == "":
		at, err = pickAlloc(c, at)
	case !isSegment(at.AllocID):
		err = structs.Invalidf("the parameter allocID is %q, expected the ID of an allocation",
			structs.Cut(at.AllocID, structs.MaxQuoted))
	}
	if err != nil {
		return nil, err
	}

	q := url.Values{}
	for name, value := range map[string]string{
		"action":    at.Action,
		"command":   c.Param("command"),
		"group":     at.Group,
		"job":       at.JobID,
		"namespace": at.Namespace,
		"region":    c.Param("region"),
		"task":      at.Task,
		"tty":       c.Param("tty"),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return api.ServeExec(c, at.AllocID, q)
}

// isSegment reports whether an ID is one segment of a path.
func isSegment(id string) bool {
	return id != "." && id != ".." && !strings.Contains(id, "/")
}

// pickAlloc finds a running allocation. The right of the route is enough.
func pickAlloc(c *api.Call, at jobaction.Target) (jobaction.Target, error) {
	req := &structs.JobGetRequest{
		JobID: at.JobID,
		QueryOptions: structs.QueryOptions{
			Region:    c.Param("region"),
			Namespace: at.Namespace,
		},
	}
	job, err := rpc.Call(c.Ctx(), c.Own, structs.JobGet, req)
	if err != nil {
		return at, err
	}
	allocs, err := rpc.Call(c.Ctx(), c.Own, structs.JobAllocations, req)
	if err != nil {
		return at, err
	}
	return jobaction.Pick(job.Job, allocs.Allocations, at)
}

// OpenAction starts an action of a job as api.OpenExec starts a command. The servers pick a running
// allocation if the target has none. Its job is the target's, in the namespace of the client.
func OpenAction(ctx context.Context, c *api.Client, at jobaction.Target, x *api.Exec) (
	run func(context.Context) (exitCode int, err error), err error,
) {
	q := url.Values{}
	for name, value := range map[string]string{
		"action":  at.Action,
		"allocID": at.AllocID,
		"group":   at.Group,
		"task":    at.Task,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return actionSession.OpenSession(ctx, c, api.Request{ID: at.JobID, Query: q}, x)
}
