package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
)

// answerScaling answers with the policies of two jobs.
func (w *Cluster) answerScaling() {
	var policies []*structs.ScalingPolicy
	for _, id := range []string{"web", "api"} {
		j := &structs.Job{
			ID:        id,
			Namespace: structs.DefaultNamespace,
			TaskGroups: []*structs.TaskGroup{{
				Name: "app",
				Scaling: &structs.ScalingPolicy{
					Type:    structs.ScalingHorizontal,
					Min:     new(int64(1)),
					Max:     new(int64(10)),
					Enabled: new(id == "web"),
				},
			}},
		}

		if id == "web" {
			j.TaskGroups[0].Scaling.Policy = map[string]any{"cooldown": "1m"}
		}

		policies = append(policies, j.ScalingPolicies()...)
	}

	apitest.On(w.Caller, structs.ScalingPolicyList,
		func(_ context.Context, r *structs.ScalingPolicyListRequest) (*structs.ScalingPolicyListResponse, error) {
			resp := &structs.ScalingPolicyListResponse{}
			for _, p := range policies {
				if len(r.Prefix) <= len(p.ID) && p.ID[:len(r.Prefix)] == r.Prefix {
					resp.Policies = append(resp.Policies, p.Stub())
				}
			}
			return resp, nil
		})

	apitest.On(w.Caller, structs.ScalingPolicyGet,
		func(_ context.Context, r *structs.ScalingPolicyGetRequest) (*structs.ScalingPolicyGetResponse, error) {
			for _, p := range policies {
				if p.ID == r.ID {
					return &structs.ScalingPolicyGetResponse{Policy: p}, nil
				}
			}
			return nil, structs.NotFoundf("there is no scaling policy %q", r.ID)
		})
}
