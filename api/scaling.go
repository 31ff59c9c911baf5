package api

import (
	"context"

	"berth/structs"
)

func bindScalingPolicies(c *Call, q *structs.ScalingPolicyListRequest) error {
	q.Job = c.Param("job")
	q.Type = c.Param("type")
	return nil
}

var scalingPolicies = NewEndpoint(Get, "/v1/scaling/policies",
	ServeList(structs.ScalingPolicyList, bindScalingPolicies,
		func(a *structs.ScalingPolicyListResponse) []*structs.ScalingPolicyListStub { return a.Policies }))

// ScalingPolicies lists the scaling policies of jobs.
func (c *Client) ScalingPolicies(ctx context.Context, q *Query) (
	[]*structs.ScalingPolicyListStub, *Meta, error,
) {
	return scalingPolicies.Fetch(ctx, c, "", q)
}

func bindScalingPolicy(c *Call, q *structs.ScalingPolicyGetRequest) error {
	q.ID = c.ID()
	return nil
}

var scalingPolicy = NewEndpoint(Get, "/v1/scaling/policy/{id}",
	ServeMethod(structs.ScalingPolicyGet, bindScalingPolicy,
		func(a *structs.ScalingPolicyGetResponse) *structs.ScalingPolicy { return a.Policy }))

// ScalingPolicy reads one scaling policy.
func (c *Client) ScalingPolicy(ctx context.Context, id string, q *Query) (
	*structs.ScalingPolicy, *Meta, error,
) {
	return scalingPolicy.Fetch(ctx, c, id, q)
}
