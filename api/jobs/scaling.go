package jobs

import (
	"context"

	"berth/api"
	"berth/structs"
)

func bindScalingPolicies(c *api.Call, q *structs.ScalingPolicyListRequest) error {
	q.Job = c.Param("job")
	q.Type = c.Param("type")
	return nil
}

var scalingPolicies = api.NewEndpoint(&table, api.Get, "/v1/scaling/policies",
	api.ServeList(structs.ScalingPolicyList, bindScalingPolicies,
		func(a *structs.ScalingPolicyListResponse) []*structs.ScalingPolicyListStub { return a.Policies }))

// ListScalingPolicies lists the scaling policies of jobs.
func ListScalingPolicies(ctx context.Context, c *api.Client, q *api.Query) (
	[]*structs.ScalingPolicyListStub, *api.Meta, error,
) {
	return scalingPolicies.Fetch(ctx, c, "", q)
}

func bindScalingPolicy(c *api.Call, q *structs.ScalingPolicyGetRequest) error {
	q.ID = c.ID()
	return nil
}

var scalingPolicy = api.NewEndpoint(&table, api.Get, "/v1/scaling/policy/{id}",
	api.ServeMethod(structs.ScalingPolicyGet, bindScalingPolicy,
		func(a *structs.ScalingPolicyGetResponse) *structs.ScalingPolicy { return a.Policy }))

// GetScalingPolicy reads one scaling policy.
func GetScalingPolicy(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.ScalingPolicy, *api.Meta, error,
) {
	return scalingPolicy.Fetch(ctx, c, id, q)
}
