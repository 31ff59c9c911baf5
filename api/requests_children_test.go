package api_test

import "berth/structs"

// childCalls has the requests to the routes of jobs that start others, and of changes of jobs.
func childCalls() map[string]routeCall {
	wns := structs.WriteOptions{Namespace: "default"}
	return map[string]routeCall{
		"GET /v1/job/{id}/action": {
			path:   "/v1/job/j/action?action=dump&allocID=a1",
			status: 400, // it is no websocket
		},
		"GET /v1/job/{id}/actions": {
			path:    "/v1/job/j/actions",
			rpc:     "Job.GetJob",
			request: &structs.JobGetRequest{JobID: "j"},
		},
		"PUT /v1/job/{id}/dispatch": {
			path: "/v1/job/a%2Fb/dispatch?idempotency_token=t&namespace=default",
			body: `{"JobID":"a/b","Payload":"ZGF0YQ==","Meta":{"k":"v"},"IdPrefixTemplate":"x","Priority":7}`,
			rpc:  "Job.Dispatch",
			request: &structs.JobDispatchRequest{
				JobID:            "a/b",
				Payload:          []byte("data"),
				Meta:             map[string]string{"k": "v"},
				IDPrefixTemplate: "x",
				Priority:         7,
				IdempotencyToken: "t",
				WriteOptions:     wns,
			},
		},
		"PUT /v1/job/{id}/periodic/force": {
			path:    "/v1/job/a/b/periodic/force",
			rpc:     "Periodic.Force",
			request: &structs.PeriodicForceRequest{JobID: "a/b"},
		},
		"PUT /v1/job/{id}/revert": {
			path:    "/v1/job/j/revert",
			body:    `{"JobID":"j","JobVersion":3,"EnforcePriorVersion":5}`,
			rpc:     "Job.Revert",
			request: &structs.JobRevertRequest{JobID: "j", JobVersion: 3, EnforcePriorVersion: new(uint64(5))},
		},
		"PUT /v1/job/{id}/scale": {
			path: "/v1/job/j/scale",
			body: `{"Count":4,"Target":{"Job":"j","Group":"g"},"Message":"m","Meta":{"k":[1]},"PolicyOverride":false,"JobModifyIndex":9}`,
			rpc:  "Job.Scale",
			request: &structs.JobScaleRequest{
				JobID:          "j",
				Group:          "g",
				Count:          new(int64(4)),
				JobModifyIndex: 9,
				Message:        "m",
				Meta:           map[string]any{"k": []any{1.0}},
			},
		},
		"GET /v1/job/{id}/scale": {
			path:    "/v1/job/j/scale",
			rpc:     "Job.ScaleStatus",
			request: &structs.JobGetRequest{JobID: "j"},
		},
	}
}
