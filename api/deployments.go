package api

import (
	"context"
	"encoding/json"

	"berth/structs"
)

var jobDeployment = NewEndpoint(Get, "/v1/job/{id}/deployment",
	orNull(ServeMethod(structs.JobLatestDeployment, bindJob,
		func(a *structs.DeploymentGetResponse) *structs.Deployment { return a.Deployment })), answersNull)

// orNull answers null for a deployment that does not exist: clients of the dialect fail after an error.
func orNull(serve ServeFunc[*structs.Deployment]) ServeFunc[*structs.Deployment] {
	return func(c *Call) (any, error) {
		answer, err := serve(c)
		if d, ok := answer.(*structs.Deployment); ok && d == nil {
			answer = json.RawMessage("null")
		}
		return answer, err
	}
}

// JobDeployment reads the newest deployment of a job, nil if it has none.
func (c *Client) JobDeployment(ctx context.Context, id string, q *Query) (
	*structs.Deployment, *Meta, error,
) {
	return jobDeployment.Fetch(ctx, c, id, q)
}

var jobDeployments = NewEndpoint(Get, "/v1/job/{id}/deployments",
	ServeMethod(structs.JobDeployments, bindJob,
		func(a *structs.DeploymentListResponse) []*structs.Deployment { return a.Deployments }))

// JobDeployments lists the deployments of a job, the newest first. all includes the deployments of an
// earlier job with the same ID.
func (c *Client) JobDeployments(ctx context.Context, id string, all bool, q *Query) (
	[]*structs.Deployment, *Meta, error,
) {
	return jobDeployments.call(ctx, c, Request{ID: id, Query: withAll(q, all)})
}

var deploymentList = NewEndpoint(Get, "/v1/deployments",
	ServeList(structs.DeploymentList, nil,
		func(a *structs.DeploymentListResponse) []*structs.Deployment { return a.Deployments }))

// Deployments lists deployments.
func (c *Client) Deployments(ctx context.Context, q *Query) (
	[]*structs.Deployment, *Meta, error,
) {
	return deploymentList.Fetch(ctx, c, "", q)
}

func bindDeployment(c *Call, q *structs.DeploymentGetRequest) error {
	q.DeploymentID = c.ID()
	return nil
}

var deploymentGet = NewEndpoint(Get, "/v1/deployment/{id}",
	ServeMethod(structs.DeploymentGet, bindDeployment,
		func(a *structs.DeploymentGetResponse) *structs.Deployment { return a.Deployment }))

// Deployment reads one deployment.
func (c *Client) Deployment(ctx context.Context, id string, q *Query) (
	*structs.Deployment, *Meta, error,
) {
	return deploymentGet.Fetch(ctx, c, id, q)
}

var deploymentAllocations = NewEndpoint(Get, "/v1/deployment/allocations/{id}",
	ServeList(structs.DeploymentAllocations, bindDeployment, allocStubs))

// DeploymentAllocations lists the allocations of a deployment.
func (c *Client) DeploymentAllocations(ctx context.Context, id string, q *Query) (
	[]*structs.AllocListStub, *Meta, error,
) {
	return deploymentAllocations.Fetch(ctx, c, id, q)
}

// deploymentBody is the body of the requests that change a deployment.
type deploymentBody struct {
	DeploymentID           string
	Pause                  *bool
	All                    bool
	Groups                 []string
	PromotedAt             int64 // the servers decide
	HealthyAllocationIDs   []string
	UnhealthyAllocationIDs []string
	DialectOptions
}

func (c *Call) readDeploymentBody() (*deploymentBody, error) {
	b := &deploymentBody{}
	err := c.DecodeOptionalBody(b)
	if err == nil {
		err = c.SameID("deployment", b.DeploymentID)
	}
	return b, err
}

var deploymentFail = NewEndpoint(Put, "/v1/deployment/fail/{id}",
	ServeMethod(structs.DeploymentFail, bindDeploymentFail, Whole))

func bindDeploymentFail(c *Call, req *structs.DeploymentFailRequest) error {
	_, err := c.readDeploymentBody()
	req.DeploymentID = c.ID()
	return err
}

// DeploymentFail ends a deployment as failed.
func (c *Client) DeploymentFail(ctx context.Context, id string) (*structs.DeploymentUpdateResponse, error) {
	return deploymentFail.Send(ctx, c, Request{ID: id})
}

var deploymentUnblock = NewEndpoint(Put, "/v1/deployment/unblock/{id}",
	ServeMethod(structs.DeploymentUnblock, bindDeploymentFail, Whole))

// DeploymentUnblock unblocks a deployment of several regions.
func (c *Client) DeploymentUnblock(ctx context.Context, id string) (
	*structs.DeploymentUpdateResponse, error,
) {
	return deploymentUnblock.Send(ctx, c, Request{ID: id})
}

var deploymentPause = NewEndpoint(Put, "/v1/deployment/pause/{id}",
	ServeMethod(structs.DeploymentPause,
		func(c *Call, req *structs.DeploymentPauseRequest) error {
			b, err := c.readDeploymentBody()
			switch {
			case err != nil:
				return err
			case b.Pause == nil:
				return missing("Pause", "true to pause the deployment, false to resume it")
			}
			req.DeploymentID = c.ID()
			req.Pause = *b.Pause
			return nil
		}, Whole))

// DeploymentPause pauses a deployment, or lets it go on.
func (c *Client) DeploymentPause(ctx context.Context, id string, pause bool) (
	*structs.DeploymentUpdateResponse, error,
) {
	body := struct{ Pause bool }{pause}
	return deploymentPause.Send(ctx, c, Request{ID: id, Body: body})
}

var deploymentPromote = NewEndpoint(Put, "/v1/deployment/promote/{id}",
	ServeMethod(structs.DeploymentPromote,
		func(c *Call, req *structs.DeploymentPromoteRequest) error {
			b, err := c.readDeploymentBody()
			req.DeploymentID = c.ID()
			req.All = b.All
			req.Groups = b.Groups
			return err
		}, Whole))

// DeploymentPromote promotes the canaries of groups, of all groups if there are no names.
func (c *Client) DeploymentPromote(ctx context.Context, id string, groups []string) (
	*structs.DeploymentUpdateResponse, error,
) {
	body := struct {
		All    bool
		Groups []string
	}{len(groups) == 0, groups}
	return deploymentPromote.Send(ctx, c, Request{ID: id, Body: body})
}

var deploymentHealth = NewEndpoint(Put, "/v1/deployment/allocation-health/{id}",
	ServeMethod(structs.DeploymentSetHealth,
		func(c *Call, req *structs.DeploymentHealthRequest) error {
			b, err := c.readDeploymentBody()
			req.DeploymentID = c.ID()
			req.HealthyAllocationIDs = b.HealthyAllocationIDs
			req.UnhealthyAllocationIDs = b.UnhealthyAllocationIDs
			return err
		}, Whole))

// DeploymentSetHealth decides the health of allocations of a deployment.
func (c *Client) DeploymentSetHealth(ctx context.Context, id string, healthy, unhealthy []string) (
	*structs.DeploymentUpdateResponse, error,
) {
	body := struct{ HealthyAllocationIDs, UnhealthyAllocationIDs []string }{healthy, unhealthy}
	return deploymentHealth.Send(ctx, c, Request{ID: id, Body: body})
}

var jobStable = NewEndpoint(Put, "/v1/job/{id}/stable",
	ServeMethod(structs.JobStable, bindJobStable, Whole))

func bindJobStable(c *Call, req *structs.JobStableRequest) error {
	var b struct {
		JobID      string
		JobVersion *uint64
		Stable     *bool
		DialectOptions
	}

	err := c.DecodeBody(&b)
	switch {
	case err != nil:
		return err
	case b.JobVersion == nil:
		return missing("JobVersion", "the number of a version of the job")
	case b.Stable == nil:
		return missing("Stable", "true or false")
	}

	req.JobID = c.ID()
	req.JobVersion = *b.JobVersion
	req.Stable = *b.Stable
	return c.SameID("job", b.JobID)
}

// JobStable sets whether a version of a job is stable.
func (c *Client) JobStable(ctx context.Context, id string, version uint64, stable bool) (
	*structs.JobStableResponse, error,
) {
	body := struct {
		JobVersion uint64
		Stable     bool
	}{version, stable}
	return jobStable.Send(ctx, c, Request{ID: id, Body: body})
}
