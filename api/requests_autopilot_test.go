package api_test

import (
	"time"

	"berth/structs"
	"berth/structs/cluster"
)

// autopilotCalls has the requests to the routes of autopilot. An empty answer says that the servers are
// unhealthy.
func autopilotCalls() map[string]routeCall {
	return map[string]routeCall{
		"GET /v1/operator/autopilot/configuration": {
			path:    "/v1/operator/autopilot/configuration",
			rpc:     "Operator.AutopilotGetConfiguration",
			request: &structs.QueryRequest{},
		},
		"PUT /v1/operator/autopilot/configuration": {
			path: "/v1/operator/autopilot/configuration?cas=7",
			body: `{"CleanupDeadServers":true,"LastContactThreshold":"1s","MaxTrailingLogs":500,"MinQuorum":3,
				"EnableCustomUpgrades":false,"CreateIndex":5,"ModifyIndex":5}`,
			rpc: "Operator.AutopilotSetConfiguration",
			request: &cluster.AutopilotConfigRequest{
				CAS: true,
				Config: cluster.AutopilotConfig{
					CleanupDeadServers:      true,
					LastContactThreshold:    time.Second,
					MaxTrailingLogs:         500,
					MinQuorum:               3,
					ServerStabilizationTime: 10 * time.Second,
					Indexes:                 structs.Indexes{CreateIndex: 5, ModifyIndex: 7},
				},
			},
		},
		"GET /v1/operator/clock": {
			path:    "/v1/operator/clock",
			rpc:     "Operator.Clock",
			request: &structs.QueryRequest{},
		},
		"PUT /v1/operator/clock/accept": {
			path:    "/v1/operator/clock/accept",
			rpc:     "Operator.ClockAccept",
			request: &cluster.ClockAcceptRequest{},
		},
		"GET /v1/operator/autopilot/health": {
			path:    "/v1/operator/autopilot/health",
			rpc:     "Operator.ServerHealth",
			request: &structs.QueryRequest{},
			status:  429,
		},
	}
}
