package api_test

import (
	"time"

	"berth/structs"
	"berth/structs/cluster"
)

// lossCalls has the requests to the routes about the loss of a node.
func lossCalls() map[string]routeCall {
	return map[string]routeCall{
		"GET /v1/nodes/foreign": {
			path:    "/v1/nodes/foreign",
			rpc:     "Node.ListForeign",
			request: &structs.QueryRequest{},
		},
		"PUT /v1/node/{id}/fence": {
			path:    "/v1/node/n/fence",
			body:    `{"Epoch":7,"By":"ann","Why":"no answer"}`,
			rpc:     "Node.Fence",
			request: &cluster.NodeFenceRequest{NodeID: "n", Epoch: 7, By: "ann", Why: "no answer"},
		},
		"PUT /v1/node/{id}/fence/pins": {
			path: "/v1/node/n/fence/pins",
			body: `{"Pins":{"bmc":"10.0.9.17"},"Remove":["vmid"],"Left":true,"By":"ann"}`,
			rpc:  "Node.FencePin",
			request: &cluster.NodeFencePinRequest{
				NodeID: "n", Left: true, Pins: map[string]string{"bmc": "10.0.9.17"}, Remove: []string{"vmid"}, By: "ann",
			},
		},
		"PUT /v1/node/{id}/confirm-lost": {
			path:    "/v1/node/n/confirm-lost",
			body:    `{"By":"ann","Why":"it burns"}`,
			rpc:     "Node.ConfirmLost",
			request: &cluster.NodeFenceRequest{NodeID: "n", By: "ann", Why: "it burns"},
		},
		"PUT /v1/node/{id}/lease": {
			path:    "/v1/node/n/lease",
			body:    `{"NodeID":"n","For":900000000000}`,
			rpc:     "Node.ExtendLease",
			request: &cluster.NodeExtendLeaseRequest{NodeID: "n", For: 15 * time.Minute},
		},
	}
}
