package api

import (
	"context"
	"encoding/json"

	"berth/structs"
)

var jobDeployment = route(get, "/v1/job/{id}/deployment",
	orNull(serveMethod(structs.JobLatestDeployment, bindJob,
		func(a *structs.DeploymentGetResponse) *structs.Deployment { return a.Deployment })))

// orNull answers null for a deployment that does not exist: clients of the dialect fail after an error.
func orNull(serve serveFunc[*structs.Deployment]) serveFunc[*structs.Deployment] {
	return func(c *call) (any, error) {
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
	return jobDeployment.fetch(ctx, c, id, q)
}

var jobDeployments = route(get, "/v1/job/{id}/deployments",
	serveMethod(structs.JobDeployments, bindJob,
		func(a *structs.DeploymentListResponse) []*structs.Deployment { return a.Deployments }))

// JobDeployments lists the deployments of a job, the newest first. all includes the deployments of an
// earlier job with the same ID.
func (c *Client) JobDeployments(ctx context.Context, id string, all bool, q *Query) (
	[]*structs.Deployment, *Meta, error,
) {
	return jobDeployments.call(ctx, c, request{id: id, query: withAll(q, all)})
}

var deploymentList = route(get, "/v1/deployments",
	serveList(structs.DeploymentList, nil,
		func(a *structs.DeploymentListResponse) []*structs.Deployment { return a.Deployments }))

// Deployments lists deployments.
func (c *Client) Deployments(ctx context.Context, q *Query) (
	[]*structs.Deployment, *Meta, error,
) {
	return deploymentList.fetch(ctx, c, "", q)
}

func bindDeployment(c *call, q *structs.DeploymentGetRequest) error {
	q.DeploymentID = c.id()
	return nil
}

var deploymentGet = route(get, "/v1/deployment/{id}",
	serveMethod(structs.DeploymentGet, bindDeployment,
		func(a *structs.DeploymentGetResponse) *structs.Deployment { return a.Deployment }))

// Deployment reads one deployment.
func (c *Client) Deployment(ctx context.Context, id string, q *Query) (
	*structs.Deployment, *Meta, error,
) {
	return deploymentGet.fetch(ctx, c, id, q)
}

var deploymentAllocations = route(get, "/v1/deployment/allocations/{id}",
	serveList(structs.DeploymentAllocations, bindDeployment, allocStubs))

// DeploymentAllocations lists the allocations of a deployment.
func (c *Client) DeploymentAllocations(ctx context.Context, id string, q *Query) (
	[]*structs.AllocListStub, *Meta, error,
) {
	return deploymentAllocations.fetch(ctx, c, id, q)
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
	dialectOptions
}

func (c *call) readDeploymentBody() (*deploymentBody, error) {
	b := &deploymentBody{}
	err := c.decodeOptionalBody(b)
	if err == nil {
		err = c.sameID("deployment", b.DeploymentID)
	}
	return b, err
}

var deploymentFail = route(put, "/v1/deployment/fail/{id}",
	serveMethod(structs.DeploymentFail, bindDeploymentFail, whole))

func bindDeploymentFail(c *call, req *structs.DeploymentFailRequest) error {
	_, err := c.readDeploymentBody()
	req.DeploymentID = c.id()
	return err
}

// DeploymentFail ends a deployment as failed.
func (c *Client) DeploymentFail(ctx context.Context, id string) (*structs.DeploymentUpdateResponse, error) {
	return deploymentFail.send(ctx, c, request{id: id})
}

var deploymentUnblock = route(put, "/v1/deployment/unblock/{id}",
	serveMethod(structs.DeploymentUnblock, bindDeploymentFail, whole))

// DeploymentUnblock unblocks a deployment of several regions.
func (c *Client) DeploymentUnblock(ctx context.Context, id string) (
	*structs.DeploymentUpdateResponse, error,
) {
	return deploymentUnblock.send(ctx, c, request{id: id})
}

var deploymentPause = route(put, "/v1/deployment/pause/{id}",
	serveMethod(structs.DeploymentPause,
		func(c *call, req *structs.DeploymentPauseRequest) error {
			b, err := c.readDeploymentBody()
			switch {
			case err != nil:
				return err
			case b.Pause == nil:
				return missing("Pause", "true to pause the deployment, false to resume it")
			}
			req.DeploymentID = c.id()
			req.Pause = *b.Pause
			return nil
		}, whole))

// DeploymentPause pauses a deployment, or lets it go on.
func (c *Client) DeploymentPause(ctx context.Context, id string, pause bool) (
	*structs.DeploymentUpdateResponse, error,
) {
	body := struct{ Pause bool }{pause}
	return deploymentPause.send(ctx, c, request{id: id, body: body})
}

var deploymentPromote = route(put, "/v1/deployment/promote/{id}",
	serveMethod(structs.DeploymentPromote,
		func(c *call, req *structs.DeploymentPromoteRequest) error {
			b, err := c.readDeploymentBody()
			req.DeploymentID = c.id()
			req.All = b.All
			req.Groups = b.Groups
			return err
		}, whole))

// DeploymentPromote promotes the canaries of groups, of all groups if there are no names.
func (c *Client) DeploymentPromote(ctx context.Context, id string, groups []string) (
	*structs.DeploymentUpdateResponse, error,
) {
	body := struct {
		All    bool
		Groups []string
	}{len(groups) == 0, groups}
	return deploymentPromote.send(ctx, c, request{id: id, body: body})
}

var deploymentHealth = route(put, "/v1/deployment/allocation-health/{id}",
	serveMethod(structs.DeploymentSetHealth,
		func(c *call, req *structs.DeploymentHealthRequest) error {
			b, err := c.readDeploymentBody()
			req.DeploymentID = c.id()
			req.HealthyAllocationIDs = b.HealthyAllocationIDs
			req.UnhealthyAllocationIDs = b.UnhealthyAllocationIDs
			return err
		}, whole))

// DeploymentSetHealth decides the health of allocations of a deployment.
func (c *Client) DeploymentSetHealth(ctx context.Context, id string, healthy, unhealthy []string) (
	*structs.DeploymentUpdateResponse, error,
) {
	body := struct{ HealthyAllocationIDs, UnhealthyAllocationIDs []string }{healthy, unhealthy}
	return deploymentHealth.send(ctx, c, request{id: id, body: body})
}

var jobStable = route(put, "/v1/job/{id}/stable",
	serveMethod(structs.JobStable, bindJobStable, whole))

func bindJobStable(c *call, req *structs.JobStableRequest) error {
	var b struct {
		JobID      string
		JobVersion *uint64
		Stable     *bool
		dialectOptions
	}

	err := c.decodeBody(&b)
	switch {
	case err != nil:
		return err
	case b.JobVersion == nil:
		return missing("JobVersion", "the number of a version of the job")
	case b.Stable == nil:
		return missing("Stable", "true or false")
	}

	req.JobID = c.id()
	req.JobVersion = *b.JobVersion
	req.Stable = *b.Stable
	return c.sameID("job", b.JobID)
}

// JobStable sets whether a version of a job is stable.
func (c *Client) JobStable(ctx context.Context, id string, version uint64, stable bool) (
	*structs.JobStableResponse, error,
) {
	body := struct {
		JobVersion uint64
		Stable     bool
	}{version, stable}
	return jobStable.send(ctx, c, request{id: id, body: body})
}
