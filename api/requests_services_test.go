package api_test

import (
	"berth/structs"
)

// serviceCalls has the requests to the routes of services.
func serviceCalls() map[string]routeCall {
	return map[string]routeCall{
		"GET /v1/services": {
			path:    "/v1/services?prefix=w&per_page=2",
			rpc:     "ServiceRegistration.List",
			request: &structs.QueryRequest{QueryOptions: structs.QueryOptions{Prefix: "w", PerPage: 2}},
		},
		"GET /v1/service/{id}": {
			path: "/v1/service/web?choose=2%7Ckey&per_page=3",
			rpc:  "ServiceRegistration.GetService",
			request: &structs.ServiceGetRequest{
				ServiceName:  "web",
				Choose:       "2|key",
				QueryOptions: structs.QueryOptions{PerPage: 3},
			},
		},
		"DELETE /v1/service/{id}/{tag}": {
			path: "/v1/service/web/_berth-a%2F1?namespace=prod",
			rpc:  "ServiceRegistration.DeleteByID",
			request: &structs.ServiceDeleteRequest{
				ServiceName: "web", ID: "_berth-a/1", WriteOptions: structs.WriteOptions{Namespace: "prod"},
			},
		},
		"GET /v1/allocation/{id}/services": {
			path:    "/v1/allocation/a/services?per_page=3",
			rpc:     "Alloc.Services",
			request: &structs.AllocGetRequest{AllocID: "a", QueryOptions: structs.QueryOptions{PerPage: 3}},
		},
		"GET /v1/job/{id}/services": {
			path: "/v1/job/a%2Fb/services?namespace=default&per_page=3",
			rpc:  "Job.GetServiceRegistrations",
			request: &structs.JobGetRequest{
				JobID:        "a/b",
				QueryOptions: structs.QueryOptions{Namespace: "default", PerPage: 3},
			},
		},
	}
}
