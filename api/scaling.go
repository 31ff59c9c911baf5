package api

import (
	"context"

	"berth/structs"
)

func bindScalingPolicies(c *call, q *structs.ScalingPolicyListRequest) error {
	q.Job = c.param("job")
	q.Type = c.param("type")
	return nil
}

var scalingPolicies = route(get, "/v1/scaling/policies",
	serveList(structs.ScalingPolicyList, bindScalingPolicies,
		func(a *structs.ScalingPolicyListResponse) []*structs.ScalingPolicyListStub { return a.Policies }))

// ScalingPolicies lists the scaling policies of jobs.
func (c *Client) ScalingPolicies(ctx context.Context, q *Query) (
	[]*structs.ScalingPolicyListStub, *Meta, error,
) {
	return scalingPolicies.fetch(ctx, c, "", q)
}

func bindScalingPolicy(c *call, q *structs.ScalingPolicyGetRequest) error {
	q.ID = c.id()
	return nil
}

var scalingPolicy = route(get, "/v1/scaling/policy/{id}",
	serveMethod(structs.ScalingPolicyGet, bindScalingPolicy,
		func(a *structs.ScalingPolicyGetResponse) *structs.ScalingPolicy { return a.Policy }))

// ScalingPolicy reads one scaling policy.
func (c *Client) ScalingPolicy(ctx context.Context, id string, q *Query) (
	*structs.ScalingPolicy, *Meta, error,
) {
	return scalingPolicy.fetch(ctx, c, id, q)
}
