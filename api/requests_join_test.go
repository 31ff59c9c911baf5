package api_test

import (
	"time"

	"berth/structs"
	"berth/structs/cluster"
)

// joinCalls has the requests to the routes of join tokens.
func joinCalls() map[string]routeCall {
	return map[string]routeCall{
		"PUT /v1/join/token": {
			path: "/v1/join/token",
			body: `{"Role":"node","NodePool":"gpu","Uses":2,"TTL":60000000000}`,
			rpc:  "JoinToken.Create",
			request: &cluster.JoinTokenCreateRequest{
				Role:     "node",
				NodePool: "gpu",
				Uses:     2,
				TTL:      time.Minute,
			},
		},
		"GET /v1/join/tokens": {
			path:    "/v1/join/tokens",
			rpc:     "JoinToken.List",
			request: &structs.QueryRequest{},
		},
		"DELETE /v1/join/token/{id}": {
			path:    "/v1/join/token/t",
			rpc:     "JoinToken.Delete",
			request: &cluster.JoinTokenDeleteRequest{ID: "t"},
		},
	}
}
