package clitest

import (
	"context"
	"slices"
	"strings"
	"time"

	"berth/api/apitest"
	"berth/structs"
)

// Deployment1 is the ID of the deployment of the job web.
const Deployment1 = "d1d1d1d1-0000-0000-0000-000000000001"

// WebDeployment is the deployment of version 2 of the job web, whose canary waits for its promotion.
func WebDeployment() *structs.Deployment {
	return &structs.Deployment{
		ID:                Deployment1,
		Namespace:         "default",
		JobID:             "web",
		JobVersion:        2,
		Status:            structs.DeploymentRunning,
		StatusDescription: structs.DeploymentNeedsPromotion,
		CreateTime:        nanosBefore(time.Hour),
		TaskGroups: map[string]*structs.DeploymentState{
			"app": {
				DesiredTotal: 2, DesiredCanaries: 1, PlacedAllocs: 1, HealthyAllocs: 1,
				RequireProgressBy: Today.Add(-20 * time.Minute), // it does not fail: the canary is healthy
			},
		},
		Indexes: structs.Indexes{CreateIndex: 9},
	}
}

// DeployedAlloc is an allocation of WebDeployment that runs.
func DeployedAlloc(group string, canary, healthy bool) *structs.AllocListStub {
	return &structs.AllocListStub{
		ID:               Alloc1,
		Name:             "web." + group + "[0]",
		NodeID:           Node1,
		NodeName:         "one",
		TaskGroup:        group,
		JobVersion:       2,
		DesiredStatus:    structs.AllocDesiredRun,
		ClientStatus:     structs.AllocRunning,
		DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: &healthy, Canary: canary},
	}
}

// fakeDeployments answers for WebDeployment, which a promotion completes.
func fakeDeployments(c *apitest.Caller) {
	d := WebDeployment()
	change := func(id string, edit func()) (*structs.DeploymentUpdateResponse, error) {
		if id != d.ID {
			return nil, structs.NotFoundf("there is no deployment %q", id)
		}
		edit()
		return &structs.DeploymentUpdateResponse{EvalID: eval1}, nil
	}
	apitest.On(c, structs.JobLatestDeployment, func(_ context.Context, r *structs.JobGetRequest) (
		*structs.DeploymentGetResponse, error,
	) {
		if r.JobID != d.JobID {
			return &structs.DeploymentGetResponse{}, nil
		}
		return &structs.DeploymentGetResponse{Deployment: d}, nil
	})
	apitest.On(c, structs.JobDeployments, func(_ context.Context, r *structs.JobGetRequest) (
		*structs.DeploymentListResponse, error,
	) {
		return &structs.DeploymentListResponse{Deployments: []*structs.Deployment{d}}, nil
	})
	apitest.On(c, structs.DeploymentList, func(_ context.Context, r *structs.QueryRequest) (
		*structs.DeploymentListResponse, error,
	) {
		all := []*structs.Deployment{d}
		all = slices.DeleteFunc(all, func(d *structs.Deployment) bool { return !strings.HasPrefix(d.ID, r.Prefix) })
		return &structs.DeploymentListResponse{Deployments: all}, nil
	})
	apitest.On(c, structs.DeploymentGet, func(_ context.Context, r *structs.DeploymentGetRequest) (
		*structs.DeploymentGetResponse, error,
	) {
		return &structs.DeploymentGetResponse{Deployment: d}, nil
	})
	apitest.Answer(c, structs.DeploymentAllocations, structs.AllocListResponse{
		Allocations: []*structs.AllocListStub{DeployedAlloc("app", true, true)},
	})
	apitest.On(c, structs.DeploymentPromote, func(_ context.Context, r *structs.DeploymentPromoteRequest) (
		*structs.DeploymentUpdateResponse, error,
	) {
		for _, group := range r.Groups {
			if d.Group(group) == nil {
				return nil, structs.Invalidf("deployment %q has no group %q", d.ID, group)
			}
		}
		if r.All != (len(r.Groups) == 0) {
			return nil, structs.Invalidf("all groups: %t, of %d that are named", r.All, len(r.Groups))
		}
		return change(r.DeploymentID, func() {
			s := d.TaskGroups["app"]
			s.Promoted = true
			s.HealthyAllocs = 2
			s.PlacedAllocs = 2
			d.Status = structs.DeploymentSuccessful
			d.StatusDescription = structs.DeploymentIsComplete
		})
	})
	apitest.On(c, structs.DeploymentPause, func(_ context.Context, r *structs.DeploymentPauseRequest) (
		*structs.DeploymentUpdateResponse, error,
	) {
		return change(r.DeploymentID, func() {
			d.Status = structs.DeploymentRunning
			if r.Pause {
				d.Status = structs.DeploymentPaused
			}
			d.StatusDescription = d.DefaultDescription()
		})
	})
	apitest.On(c, structs.DeploymentFail, func(_ context.Context, r *structs.DeploymentFailRequest) (
		*structs.DeploymentUpdateResponse, error,
	) {
		return change(r.DeploymentID, func() {
			d.Status = structs.DeploymentFailed
			d.StatusDescription = structs.DeploymentFailedByUser
		})
	})
	apitest.Answer(c, structs.DeploymentUnblock, structs.DeploymentUpdateResponse{
		EvalID:                eval2,
		DeploymentModifyIndex: 20,
	})
}
