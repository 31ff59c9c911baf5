package clitest

import (
	"context"
	"strings"

	"berth/api/apitest"
	"berth/structs"
)

// ChecksOne has two checks of the first allocation, and none of the second.
func ChecksOne() map[string]map[string]*structs.CheckResult {
	return map[string]map[string]*structs.CheckResult{
		Alloc1: {
			"c1": {
				ID: "c1", Check: "answers", Service: "web", Status: structs.CheckFailing,
				Output: "the answer has the status 503", Timestamp: Today.Unix(),
			},
			"c2": {ID: "c2", Check: "runs", Service: "admin", Task: "server", Status: structs.CheckPending},
		},
		Alloc2: {},
	}
}

// answerServices answers with the services of two namespaces.
func (w *Cluster) answerServices() {
	w.Agent.ChecksAre = ChecksOne()
	apitest.On(w.Caller, structs.ServiceList,
		func(_ context.Context, r *structs.QueryRequest) (*structs.ServiceListResponse, error) {
			resp := &structs.ServiceListResponse{}
			if r.Namespace == "empty" {
				return resp, nil
			}

			resp.Services = append(resp.Services, &structs.ServiceListStub{
				Namespace: structs.DefaultNamespace,
				Services: []*structs.ServiceStub{
					{ServiceName: "admin", Tags: []string{}, Instances: 1},
					{ServiceName: "web", Tags: []string{"http", "v2"}, Instances: 2, Passing: 1},
				},
			})

			if r.Namespace == structs.AllNamespaces {
				resp.Services = append(resp.Services, &structs.ServiceListStub{
					Namespace: "prod",
					Services:  []*structs.ServiceStub{{ServiceName: "db", Instances: 1, Passing: 1}},
				})
			}

			return resp, nil
		})

	instances := []*structs.ServiceRegistration{
		{
			ID: "i1", ServiceName: "web", Namespace: structs.DefaultNamespace, NodeID: Node1, JobID: "web",
			AllocID: Alloc1, Tags: []string{"http", "v2"}, Address: "10.0.0.1", Port: 20001,
			Status: structs.CheckFailing,
		},
		{
			ID: "i2", ServiceName: "web", Namespace: structs.DefaultNamespace, NodeID: Node2, JobID: "web",
			AllocID: Alloc2, Address: "fd00::1", Port: 20002, Status: structs.CheckPassing,
		},
		{
			ID: "i3", ServiceName: "admin", Namespace: structs.DefaultNamespace, NodeID: Node1, JobID: "web",
			AllocID: Alloc1, Address: "10.0.0.1",
		},
	}

	apitest.On(w.Caller, structs.ServiceDelete,
		func(_ context.Context, r *structs.ServiceDeleteRequest) (*structs.Empty, error) {
			if r.ServiceName != "web" || r.ID != "i1" {
				return nil, structs.NotFoundf("service %q has no instance %q", r.ServiceName, r.ID)
			}
			return &structs.Empty{}, nil
		})

	apitest.On(w.Caller, structs.ServiceGet,
		func(_ context.Context, r *structs.ServiceGetRequest) (*structs.ServiceGetResponse, error) {
			resp := &structs.ServiceGetResponse{}
			for _, i := range instances {
				kept := r.Filter == "" || strings.Contains(r.Filter, i.Status)
				if i.ServiceName == r.ServiceName && kept {
					resp.Services = append(resp.Services, i)
				}
			}
			return resp, nil
		})
}
