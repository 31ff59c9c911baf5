package api_test

import (
	"time"

	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/event"
)

// evalCalls has the requests to the routes of evaluations and events, and to the newer ones of operators.
func evalCalls() map[string]routeCall {
	wns := structs.WriteOptions{Namespace: "default"}
	return map[string]routeCall{
		"GET /v1/event/stream": {
			path: "/v1/event/stream?topic=Job:web&topic=Job:db&topic=Node&index=7&namespace=team&filter=f&region=eu",
			rpc:  "Event.List",
			request: &event.ListRequest{
				Topics: map[event.Topic][]string{event.Job: {"web", "db"}, event.Node: {"*"}},
				After:  6,
				QueryOptions: structs.QueryOptions{
					Region:     "eu",
					Namespace:  "team",
					Filter:     "f",
					AllowStale: true,
					MaxWait:    time.Millisecond,
				},
			},
		},
		"GET /v1/evaluations/count": {
			path: "/v1/evaluations/count?namespace=*&filter=f&job=j&status=failed",
			rpc:  "Eval.Count",
			request: &structs.EvalListRequest{
				JobID:        "j",
				Status:       "failed",
				QueryOptions: structs.QueryOptions{Namespace: "*", Filter: "f"},
			},
		},
		"DELETE /v1/evaluations": {
			path: "/v1/evaluations?namespace=default",
			body: `{"EvalIDs":["e1"],"Filter":"f","Region":"","Namespace":"","SecretID":""}`,
			rpc:  "Eval.Delete",
			request: &structs.EvalDeleteRequest{
				EvalIDs:      []string{"e1"},
				Filter:       "f",
				WriteOptions: wns,
			},
		},
		"PUT /v1/operator/raft/transfer-leadership": {
			path:    "/v1/operator/raft/transfer-leadership?address=10.0.0.3:4747",
			rpc:     "Operator.RaftTransferLeadership",
			request: &cluster.RaftTransferRequest{Address: "10.0.0.3:4747"},
		},
		"PUT /v1/system/reconcile/summaries": {
			path:   "/v1/system/reconcile/summaries",
			body:   "{}",
			status: 200,
		},
		"PUT /v1/client/gc": {path: "/v1/client/gc", status: 404}, // the agent has no node
		"GET /v1/client/gc": {path: "/v1/client/gc", status: 404},
	}
}
