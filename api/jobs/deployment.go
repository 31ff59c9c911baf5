package jobs

import (
	"context"
	"encoding/json"

	"berth/api"
	"berth/api/allocs"
	"berth/structs"
)

var jobDeployment = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/deployment",
	orNull(api.ServeMethod(structs.JobLatestDeployment, bindJob,
		func(a *structs.DeploymentGetResponse) *structs.Deployment { return a.Deployment })), api.AnswersNull)

// orNull answers null for a deployment that does not exist: clients of the dialect fail after an error.
func orNull(serve api.ServeFunc[*structs.Deployment]) api.ServeFunc[*structs.Deployment] {
	return func(c *api.Call) (any, error) {
		answer, err := serve(c)
		if d, ok := answer.(*structs.Deployment); ok && d == nil {
			answer = json.RawMessage("null")
		}
		return answer, err
	}
}

// LatestDeployment reads the newest deployment of a job, nil if it has none.
func LatestDeployment(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.Deployment, *api.Meta, error,
) {
	return jobDeployment.Fetch(ctx, c, id, q)
}

var jobDeployments = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/deployments",
	api.ServeMethod(structs.JobDeployments, bindJob,
		func(a *structs.DeploymentListResponse) []*structs.Deployment { return a.Deployments }))

// DeploymentsOf lists the deployments of a job, the newest first. all includes the deployments of an
// earlier job with the same ID.
func DeploymentsOf(ctx context.Context, c *api.Client, id string, all bool, q *api.Query) (
	[]*structs.Deployment, *api.Meta, error,
) {
	return jobDeployments.Page(ctx, c, api.Request{ID: id, Query: withAll(q, all)})
}

var deploymentList = api.NewEndpoint(&table, api.Get, "/v1/deployments",
	api.ServeList(structs.DeploymentList, nil,
		func(a *structs.DeploymentListResponse) []*structs.Deployment { return a.Deployments }))

// ListDeployments lists deployments.
func ListDeployments(ctx context.Context, c *api.Client, q *api.Query) (
	[]*structs.Deployment, *api.Meta, error,
) {
	return deploymentList.Fetch(ctx, c, "", q)
}

func bindDeployment(c *api.Call, q *structs.DeploymentGetRequest) error {
	q.DeploymentID = c.ID()
	return nil
}

var deploymentGet = api.NewEndpoint(&table, api.Get, "/v1/deployment/{id}",
	api.ServeMethod(structs.DeploymentGet, bindDeployment,
		func(a *structs.DeploymentGetResponse) *structs.Deployment { return a.Deployment }))

// GetDeployment reads one deployment.
func GetDeployment(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.Deployment, *api.Meta, error,
) {
	return deploymentGet.Fetch(ctx, c, id, q)
}

var deploymentAllocations = api.NewEndpoint(&table, api.Get, "/v1/deployment/allocations/{id}",
	api.ServeList(structs.DeploymentAllocations, bindDeployment, allocs.Stubs))

// ListDeploymentAllocations lists the allocations of a deployment.
func ListDeploymentAllocations(ctx context.Context, c *api.Client, id string, q *api.Query) (
	[]*structs.AllocListStub, *api.Meta, error,
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
	api.DialectOptions
}

func readDeploymentBody(c *api.Call) (*deploymentBody, error) {
	b := &deploymentBody{}
	err := c.DecodeOptionalBody(b)
	if err == nil {
		err = c.SameID("deployment", b.DeploymentID)
	}
	return b, err
}

var deploymentFail = api.NewEndpoint(&table, api.Put, "/v1/deployment/fail/{id}",
	api.ServeMethod(structs.DeploymentFail, bindDeploymentFail, api.Whole))

func bindDeploymentFail(c *api.Call, req *structs.DeploymentFailRequest) error {
	_, err := readDeploymentBody(c)
	req.DeploymentID = c.ID()
	return err
}

// FailDeployment ends a deployment as failed.
func FailDeployment(ctx context.Context, c *api.Client, id string) (
	*structs.DeploymentUpdateResponse, error,
) {
	return deploymentFail.Send(ctx, c, api.Request{ID: id})
}

var deploymentUnblock = api.NewEndpoint(&table, api.Put, "/v1/deployment/unblock/{id}",
	api.ServeMethod(structs.DeploymentUnblock, bindDeploymentFail, api.Whole))

// UnblockDeployment unblocks a deployment of several regions.
func UnblockDeployment(ctx context.Context, c *api.Client, id string) (
	*structs.DeploymentUpdateResponse, error,
) {
	return deploymentUnblock.Send(ctx, c, api.Request{ID: id})
}

var deploymentPause = api.NewEndpoint(&table, api.Put, "/v1/deployment/pause/{id}",
	api.ServeMethod(structs.DeploymentPause,
		func(c *api.Call, req *structs.DeploymentPauseRequest) error {
			b, err := readDeploymentBody(c)
			switch {
			case err != nil:
				return err
			case b.Pause == nil:
				return api.Missing("Pause", "true to pause the deployment, false to resume it")
			}
			req.DeploymentID = c.ID()
			req.Pause = *b.Pause
			return nil
		}, api.Whole))

// PauseDeployment pauses a deployment, or lets it go on.
func PauseDeployment(ctx context.Context, c *api.Client, id string, pause bool) (
	*structs.DeploymentUpdateResponse, error,
) {
	body := struct{ Pause bool }{pause}
	return deploymentPause.Send(ctx, c, api.Request{ID: id, Body: body})
}

var deploymentPromote = api.NewEndpoint(&table, api.Put, "/v1/deployment/promote/{id}",
	api.ServeMethod(structs.DeploymentPromote,
		func(c *api.Call, req *structs.DeploymentPromoteRequest) error {
			b, err := readDeploymentBody(c)
			req.DeploymentID = c.ID()
			req.All = b.All
			req.Groups = b.Groups
			return err
		}, api.Whole))

// PromoteDeployment promotes the canaries of groups, of all groups if there are no names.
func PromoteDeployment(ctx context.Context, c *api.Client, id string, groups []string) (
	*structs.DeploymentUpdateResponse, error,
) {
	body := struct {
		All    bool
		Groups []string
	}{len(groups) == 0, groups}
	return deploymentPromote.Send(ctx, c, api.Request{ID: id, Body: body})
}

var deploymentHealth = api.NewEndpoint(&table, api.Put, "/v1/deployment/allocation-health/{id}",
	api.ServeMethod(structs.DeploymentSetHealth,
		func(c *api.Call, req *structs.DeploymentHealthRequest) error {
			b, err := readDeploymentBody(c)
			req.DeploymentID = c.ID()
			req.HealthyAllocationIDs = b.HealthyAllocationIDs
			req.UnhealthyAllocationIDs = b.UnhealthyAllocationIDs
			return err
		}, api.Whole))

// SetDeploymentHealth decides the health of allocations of a deployment.
func SetDeploymentHealth(ctx context.Context, c *api.Client, id string, healthy, unhealthy []string) (
	*structs.DeploymentUpdateResponse, error,
) {
	body := struct{ HealthyAllocationIDs, UnhealthyAllocationIDs []string }{healthy, unhealthy}
	return deploymentHealth.Send(ctx, c, api.Request{ID: id, Body: body})
}

var jobStable = api.NewEndpoint(&table, api.Put, "/v1/job/{id}/stable",
	api.ServeMethod(structs.JobStable, bindJobStable, api.Whole))

func bindJobStable(c *api.Call, req *structs.JobStableRequest) error {
	var b struct {
		JobID      string
		JobVersion *uint64
		Stable     *bool
		api.DialectOptions
	}

	err := c.DecodeBody(&b)
	switch {
	case err != nil:
		return err
	case b.JobVersion == nil:
		return api.Missing("JobVersion", "the number of a version of the job")
	case b.Stable == nil:
		return api.Missing("Stable", "true or false")
	}

	req.JobID = c.ID()
	req.JobVersion = *b.JobVersion
	req.Stable = *b.Stable
	return c.SameID("job", b.JobID)
}

// SetStable sets whether a version of a job is stable.
func SetStable(ctx context.Context, c *api.Client, id string, version uint64, stable bool) (
	*structs.JobStableResponse, error,
) {
	body := struct {
		JobVersion uint64
		Stable     bool
	}{version, stable}
	return jobStable.Send(ctx, c, api.Request{ID: id, Body: body})
}
