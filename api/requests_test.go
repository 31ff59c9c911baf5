package api_test

import (
	"maps"
	"time"

	"berth/structs"
	"berth/structs/cluster"
)

// routeCall is a request to a route and its expected effect.
type routeCall struct {
	path, body string
	rpc        string // the remote procedure that the route calls, or ""
	request    any    // the request of the procedure
	status     int    // of the answer; 503 for a route with a procedure, because the fake caller has no answers
}

// routeCalls has a request for each route that needs more than its path or calls no procedure.
func routeCalls() map[string]routeCall {
	ns := structs.QueryOptions{Namespace: "default"}
	wns := structs.WriteOptions{Namespace: "default"}
	vol := &structs.CSIVolume{
		ID: "a/b", Namespace: "default",
		CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", Secrets: structs.Secrets{"k": "v"}},
	}
	volBody := `{"Volumes":[{"ID":"a/b","PluginID":"p","Secrets":{"k":"v"},"Schedulable":true,"NodesHealthy":3,
		"ResourceExhausted":"2026-01-02T03:04:05Z","Allocations":[{"ID":"x"}]}]}`
	jobsPath := "/v1/jobs?prefix=x&index=7&wait=3s&per_page=5&next_token=t&filter=f&reverse=true&stale&region=eu"
	jobsQuery := structs.QueryOptions{
		Prefix:     "x",
		MinIndex:   7,
		MaxWait:    3 * time.Second,
		PerPage:    5,
		NextToken:  "t",
		Filter:     "f",
		Reverse:    true,
		AllowStale: true,
		Region:     "eu",
	}
	calls := map[string]routeCall{
		"GET /v1/jobs": {
			path:    jobsPath,
			rpc:     "Job.List",
			request: &structs.QueryRequest{QueryOptions: jobsQuery},
		},
		"PUT /v1/jobs": {
			path: "/v1/jobs",
			body: `{"Job":{"ID":"j"},"EnforceIndex":true,"JobModifyIndex":4,"Submission":{"Source":"text","Format":"hcl2"},` +
				`"PreserveCounts":true,"EvalPriority":60,"PolicyOverride":true}`,
			rpc: "Job.Register",
			request: &structs.JobRegisterRequest{
				Job: &structs.Job{
					ID:        "j",
					Namespace: "default",
				},
				EnforceIndex:   true,
				JobModifyIndex: 4,
				PreserveCounts: true,
				EvalPriority:   60,
				Submission:     &structs.JobSubmission{Source: "text", Format: "hcl2"},
			},
		},
		"PUT /v1/jobs/parse": {
			path: "/v1/jobs/parse",
			body: `{"JobHCL":"variable \"t\" {}\njob \"j\" {\n type = var.t\n}\n",` +
				`"Variables":"t = \"batch\"","Canonicalize":true,"HCLv1":false}`,
			status: 200,
		},
		"PUT /v1/validate/job": {
			path:    "/v1/validate/job?namespace=default",
			body:    `{"Job":{"ID":"j"}}`,
			rpc:     "Job.Validate",
			request: &structs.JobValidateRequest{Job: &structs.Job{ID: "j"}, QueryOptions: ns},
		},
		"GET /v1/job/{id}": {
			path:    "/v1/job/a%2Fb?namespace=default",
			rpc:     "Job.GetJob",
			request: &structs.JobGetRequest{JobID: "a/b", QueryOptions: ns},
		},
		"PUT /v1/job/{id}": {
			path: "/v1/job/j?namespace=default",
			body: `{"Job":{"ID":"j"}}`,
			rpc:  "Job.Register",
			request: &structs.JobRegisterRequest{
				Job:          &structs.Job{ID: "j", Namespace: "default"},
				WriteOptions: wns,
			},
		},
		"DELETE /v1/job/{id}": {
			path: "/v1/job/j?purge=true&eval_priority=70&no_shutdown_delay=true&force=true&namespace=default",
			rpc:  "Job.Deregister",
			request: &structs.JobDeregisterRequest{
				JobID:           "j",
				Purge:           true,
				EvalPriority:    70,
				NoShutdownDelay: true,
				Force:           true,
				WriteOptions:    wns,
			},
		},
		"GET /v1/job/{id}/allocations": {
			path:    "/v1/job/a/b/allocations?all=true",
			rpc:     "Job.Allocations",
			request: &structs.JobGetRequest{JobID: "a/b", All: true},
		},
		"GET /v1/job/{id}/evaluations": {
			path:    "/v1/job/j/evaluations",
			rpc:     "Job.Evaluations",
			request: &structs.JobGetRequest{JobID: "j"},
		},
		"GET /v1/job/{id}/why": {
			path:    "/v1/job/j/why",
			rpc:     "Job.Why",
			request: &structs.JobGetRequest{JobID: "j"},
		},
		"GET /v1/volume/csi/{id}/why": {
			path:    "/v1/volume/csi/a/b/why",
			rpc:     "CSIVolume.Why",
			request: &structs.CSIVolumeGetRequest{ID: "a/b"},
		},
		"GET /v1/job/{id}/summary": {
			path:    "/v1/job/j/summary",
			rpc:     "Job.Summary",
			request: &structs.JobGetRequest{JobID: "j"},
		},
		"GET /v1/job/{id}/submission": {
			path:    "/v1/job/j/submission?version=3",
			rpc:     "Job.GetJobSubmission",
			request: &structs.JobSubmissionRequest{JobID: "j", Version: 3},
		},
		"GET /v1/job/{id}/versions": {
			path: "/v1/job/j/versions?diffs=true&diff_tag=golden&diff_version=0",
			rpc:  "Job.GetJobVersions",
			request: &structs.JobGetRequest{
				JobID: "j", Diffs: true, DiffTag: "golden", DiffVersion: new(uint64(0)),
			},
		},
		"PUT /v1/job/{id}/plan": {
			path: "/v1/job/a%2Fb/plan?namespace=default",
			body: `{"Job":{"ID":"a/b"},"Diff":true,"PolicyOverride":false}`,
			rpc:  "Job.Plan",
			request: &structs.JobPlanRequest{
				Job:          &structs.Job{ID: "a/b"},
				Diff:         true,
				QueryOptions: ns,
			},
		},
		"PUT /v1/job/{id}/evaluate": {
			path:    "/v1/job/j/evaluate",
			body:    `{"JobID":"j","EvalOptions":{"ForceReschedule":true}}`,
			rpc:     "Job.Evaluate",
			request: &structs.JobEvaluateRequest{JobID: "j", ForceReschedule: true},
		},

		"GET /v1/allocations": {
			path:    "/v1/allocations?namespace=*",
			rpc:     "Alloc.List",
			request: &structs.QueryRequest{QueryOptions: structs.QueryOptions{Namespace: "*"}},
		},
		"GET /v1/allocation/{id}": {
			path:    "/v1/allocation/x",
			rpc:     "Alloc.GetAlloc",
			request: &structs.AllocGetRequest{AllocID: "x"},
		},
		"PUT /v1/allocation/{id}/stop": {
			path:    "/v1/allocation/x/stop?no_shutdown_delay=true",
			rpc:     "Alloc.Stop",
			request: &structs.AllocStopRequest{AllocID: "x", NoShutdownDelay: true},
		},
		"GET /v1/client/fs/logs/{id}": {
			path: "/v1/client/fs/logs/x?task=t&type=stdout",
			rpc:  "Alloc.GetAlloc",
			request: &structs.AllocGetRequest{
				AllocID:      "x",
				QueryOptions: structs.QueryOptions{Namespace: "*", AllowStale: true},
			},
		},
		"PUT /v1/search": {
			path: "/v1/search?namespace=default&index=7",
			body: `{"Prefix":"a","Context":"jobs","Namespace":"other","WaitIndex":0,"Params":null,"AuthToken":""}`,
			rpc:  "Search.PrefixSearch",
			request: &structs.SearchRequest{
				Context:      "jobs",
				QueryOptions: structs.QueryOptions{Namespace: "default", Prefix: "a", MinIndex: 7},
			},
		},
		"PUT /v1/search/fuzzy": {
			path: "/v1/search/fuzzy",
			body: `{"Text":"web","Context":"all","Namespace":"*","AllowStale":true}`,
			rpc:  "Search.FuzzySearch",
			request: &structs.FuzzySearchRequest{
				Text:         "web",
				Context:      "all",
				QueryOptions: structs.QueryOptions{Namespace: "*", AllowStale: true},
			},
		},
		"GET /v1/evaluations": {
			path:    "/v1/evaluations?job=a%2Fb&status=complete",
			rpc:     "Eval.List",
			request: &structs.EvalListRequest{JobID: "a/b", Status: "complete"},
		},
		"GET /v1/evaluation/{id}": {
			path:    "/v1/evaluation/x?related=true",
			rpc:     "Eval.GetEval",
			request: &structs.EvalGetRequest{EvalID: "x"},
		},
		"GET /v1/evaluation/{id}/allocations": {
			path:    "/v1/evaluation/x/allocations",
			rpc:     "Eval.Allocations",
			request: &structs.EvalGetRequest{EvalID: "x"},
		},

		"GET /v1/nodes": {
			path:    "/v1/nodes",
			rpc:     "Node.List",
			request: &structs.QueryRequest{},
		},
		"GET /v1/node/{id}": {
			path:    "/v1/node/n",
			rpc:     "Node.Get",
			request: &structs.NodeGetRequest{NodeID: "n"},
		},
		"GET /v1/node/{id}/allocations": {
			path:    "/v1/node/n/allocations",
			rpc:     "Node.GetAllocs",
			request: &structs.NodeGetRequest{NodeID: "n"},
		},
		"PUT /v1/node/{id}/eligibility": {
			path:    "/v1/node/n/eligibility",
			body:    `{"NodeID":"n","Eligibility":"ineligible"}`,
			rpc:     "Node.UpdateEligibility",
			request: &structs.NodeEligibilityRequest{NodeID: "n", Eligibility: "ineligible"},
		},
		"PUT /v1/node/{id}/drain": {
			path: "/v1/node/n/drain",
			body: `{"NodeID":"n","DrainSpec":{"Deadline":1000,"IgnoreSystemJobs":true},"Meta":{"a":"b"}}`,
			rpc:  "Node.UpdateDrain",
			request: &structs.NodeDrainRequest{
				NodeID:    "n",
				DrainSpec: &structs.DrainSpec{Deadline: 1000, IgnoreSystemJobs: true},
				Meta:      map[string]string{"a": "b"},
			},
		},
		"GET /v1/node/{id}/drain": {
			path:    "/v1/node/n/drain",
			rpc:     "Node.DrainStatus",
			request: &structs.NodeGetRequest{NodeID: "n"},
		},
		"PUT /v1/node/{id}/evaluate": {
			path:    "/v1/node/n/evaluate",
			rpc:     "Node.Evaluate",
			request: &structs.NodeGetWriteRequest{NodeID: "n"},
		},
		"PUT /v1/node/{id}/purge": {
			path:    "/v1/node/n/purge",
			rpc:     "Node.Deregister",
			request: &structs.NodeDeregisterRequest{NodeIDs: []string{"n"}},
		},

		"GET /v1/node/pool/{id}": {
			path:    "/v1/node/pool/purge",
			rpc:     "NodePool.GetNodePool",
			request: &cluster.NodePoolGetRequest{Name: "purge"},
		},
		"PUT /v1/node/pools": {
			path: "/v1/node/pools",
			body: `{"Name":"gpu","NodeIdentityTTL":"","SchedulerConfiguration":{"SchedulerAlgorithm":"spread"}}`,
			rpc:  "NodePool.ApplyNodePool",
			request: &cluster.NodePoolApplyRequest{Pool: &cluster.NodePool{
				Name:                   "gpu",
				SchedulerConfiguration: &cluster.NodePoolSchedulerConfiguration{SchedulerAlgorithm: "spread"},
			}},
		},
		"PUT /v1/node/pool/{id}": {
			path:    "/v1/node/pool/gpu",
			body:    `{"Description":"d"}`,
			rpc:     "NodePool.ApplyNodePool",
			request: &cluster.NodePoolApplyRequest{Pool: &cluster.NodePool{Name: "gpu", Description: "d"}},
		},

		"GET /v1/volumes": {
			path:    "/v1/volumes?type=csi&plugin_id=p&node_id=n&class=fast",
			rpc:     "CSIVolume.List",
			request: &structs.CSIVolumeListRequest{PluginID: "p", NodeID: "n", Class: "fast"},
		},
		"PUT /v1/volumes": {
			path: "/v1/volumes",
			body: volBody,
			rpc:  "CSIVolume.Register",
			request: &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{vol},
				WriteOptions: wns,
			},
		},
		"GET /v1/volumes/external": {
			path: "/v1/volumes/external?plugin_id=p&per_page=3",
			rpc:  "CSIVolume.ListExternal",
			request: &structs.CSIVolumeExternalRequest{
				PluginID:     "p",
				QueryOptions: structs.QueryOptions{PerPage: 3},
			},
		},
		"GET /v1/volume/csi/{id}": {
			path:    "/v1/volume/csi/a/b",
			rpc:     "CSIVolume.Get",
			request: &structs.CSIVolumeGetRequest{ID: "a/b"},
		},
		"PUT /v1/volume/csi/{id}": {
			path: "/v1/volume/csi/a/b",
			body: volBody,
			rpc:  "CSIVolume.Register",
			request: &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{vol},
				WriteOptions: wns,
			},
		},
		"DELETE /v1/volume/csi/{id}": {
			path:    "/v1/volume/csi/a%2Fb?force=true",
			rpc:     "CSIVolume.Deregister",
			request: &structs.CSIVolumeDeregisterRequest{ID: "a/b", Force: true},
		},
		"PUT /v1/volume/csi/{id}/labels": {
			path: "/v1/volume/csi/a/b/labels",
			body: `{"Set":{"tier":"gold"},"Unset":["owner"]}`,
			rpc:  "CSIVolume.Label",
			request: &structs.CSIVolumeLabelRequest{
				ID:    "a/b",
				Set:   map[string]string{"tier": "gold"},
				Unset: []string{"owner"},
			},
		},
		"PUT /v1/volume/csi/{id}/create": {
			path: "/v1/volume/csi/a/b/create",
			body: volBody,
			rpc:  "CSIVolume.Create",
			request: &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{vol},
				WriteOptions: wns,
			},
		},
		"DELETE /v1/volume/csi/{id}/delete": {
			path:    "/v1/volume/csi/v/delete",
			rpc:     "CSIVolume.Delete",
			request: &structs.CSIVolumeDeleteRequest{ID: "v"},
		},
		"DELETE /v1/volume/csi/{id}/detach": {
			rpc:  "CSIVolume.Detach",
			path: "/v1/volume/csi/a%2Fb/detach?node=n&force=true&reason=burnt&by=me&created=7&epoch=8&alloc=a1&alloc=a2",
			request: &structs.CSIVolumeDetachRequest{
				VolumeID:     "a/b",
				NodeID:       "n",
				Force:        true,
				Reason:       "burnt",
				By:           "me",
				Shown:        &structs.DetachShown{Epoch: 8, Allocs: []string{"a1", "a2"}},
				WriteOptions: structs.WriteOptions{Created: 7},
			},
		},
		"GET /v1/volume/csi/{id}/claims": {
			path:    "/v1/volume/csi/v/claims",
			rpc:     "CSIVolume.ListClaims",
			request: &structs.CSIClaimListRequest{VolumeID: "v"},
		},
		"GET /v1/plugins": {
			path:    "/v1/plugins?type=csi",
			rpc:     "CSIPlugin.List",
			request: &structs.QueryRequest{},
		},
		"GET /v1/plugin/csi/{id}": {
			path:    "/v1/plugin/csi/p",
			rpc:     "CSIPlugin.Get",
			request: &structs.CSIPluginGetRequest{ID: "p"},
		},
		"DELETE /v1/plugin/csi/{id}": {
			path:    "/v1/plugin/csi/p",
			rpc:     "CSIPlugin.Delete",
			request: &structs.CSIPluginDeleteRequest{ID: "p"},
		},

		"GET /v1/agent/self":    {path: "/v1/agent/self", status: 200},
		"GET /v1/agent/members": {path: "/v1/agent/members", status: 200},
		"GET /v1/agent/health":  {path: "/v1/agent/health?type=server", status: 200},
		"GET /v1/agent/servers": {
			path:    "/v1/agent/servers",
			rpc:     "Status.Peers",
			request: &structs.QueryRequest{},
		},
		"GET /v1/status/leader": {
			path:    "/v1/status/leader",
			rpc:     "Status.Leader",
			request: &structs.QueryRequest{},
		},
		"GET /v1/status/peers": {
			path:    "/v1/status/peers",
			rpc:     "Status.Peers",
			request: &structs.QueryRequest{},
		},
		"GET /v1/metrics":      {path: "/v1/metrics", status: 200},
		"GET /v1/client/stats": {path: "/v1/client/stats", status: 200},
		"GET /v1/client/allocation/{id}/exec": {
			path:   `/v1/client/allocation/a/exec?command=["sh"]`,
			status: 400, // it is no websocket
		},
		"PUT /v1/client/allocation/{id}/signal": {
			path: "/v1/client/allocation/a/signal",
			body: `{"Signal":"HUP"}`,
			rpc:  "Alloc.GetAlloc",
			request: &structs.AllocGetRequest{
				AllocID:      "a",
				QueryOptions: structs.QueryOptions{Namespace: structs.AllNamespaces, AllowStale: true},
			},
		},
		"PUT /v1/job/{id}/stable": {
			path:    "/v1/job/a/stable",
			body:    `{"JobVersion":3,"Stable":true}`,
			rpc:     "Job.Stable",
			request: &structs.JobStableRequest{JobID: "a", JobVersion: 3, Stable: true},
		},
		"PUT /v1/deployment/pause/{id}": {
			path:    "/v1/deployment/pause/a",
			body:    `{"Pause":true}`,
			rpc:     "Deployment.Pause",
			request: &structs.DeploymentPauseRequest{DeploymentID: "a", Pause: true},
		},
		"GET /v1/job/{id}/deployment": {
			path:    "/v1/job/a%2Fb/deployment?namespace=default",
			rpc:     "Job.LatestDeployment",
			request: &structs.JobGetRequest{JobID: "a/b", QueryOptions: ns},
		},
		"GET /v1/job/{id}/deployments": {
			path:    "/v1/job/a%2Fb/deployments?namespace=default",
			rpc:     "Job.Deployments",
			request: &structs.JobGetRequest{JobID: "a/b", QueryOptions: ns},
		},
		"GET /v1/regions": {path: "/v1/regions", status: 200},
		"PUT /v1/namespace": {
			path: "/v1/namespace",
			body: `{"Name":"prod","Quota":"","NodePoolConfiguration":{"Default":"","Allowed":null},
				"VaultConfiguration":null,"Capabilities":{"EnabledTaskDrivers":["exec"],"EnabledNetworkModes":null}}`,
			rpc: "Namespace.ApplyNamespace",
			request: &cluster.NamespaceApplyRequest{Definition: &cluster.Namespace{
				Name:         "prod",
				Capabilities: &cluster.NamespaceCapabilities{EnabledTaskDrivers: []string{"exec"}},
			}},
		},
		"PUT /v1/namespace/{id}": {
			path:    "/v1/namespace/prod",
			body:    `{"Description":"d"}`,
			rpc:     "Namespace.ApplyNamespace",
			request: &cluster.NamespaceApplyRequest{Definition: &cluster.Namespace{Name: "prod", Description: "d"}},
		},
		"PUT /v1/agent/leave":   {path: "/v1/agent/leave?force=true", status: 200},
		"PUT /v1/agent/reload":  {path: "/v1/agent/reload", status: 200},
		"PUT /v1/agent/join":    {path: "/v1/agent/join?address=10.0.0.1", status: 200},
		"PUT /v1/agent/servers": {path: "/v1/agent/servers?address=10.0.0.1:4748", status: 412},
		"PUT /v1/agent/force-leave": {
			path:   "/v1/agent/force-leave?node=s1.global&prune=1",
			status: 200,
		},
		"DELETE /v1/operator/raft/peer": {
			path:    "/v1/operator/raft/peer?id=s1",
			rpc:     "Operator.RaftRemovePeer",
			request: &cluster.RaftRemovePeerRequest{ID: "s1"},
		},
		"GET /v1/operator/raft/configuration": {
			path:    "/v1/operator/raft/configuration",
			rpc:     "Operator.RaftConfiguration",
			request: &structs.QueryRequest{},
		},
		"GET /v1/operator/snapshot": {path: "/v1/operator/snapshot", status: 200},
		"PUT /v1/operator/snapshot": {path: "/v1/operator/snapshot", body: "an archive", status: 200},
		"GET /v1/operator/scheduler/configuration": {
			path:    "/v1/operator/scheduler/configuration",
			rpc:     "Operator.SchedulerGetConfiguration",
			request: &structs.QueryRequest{},
		},
		"PUT /v1/operator/scheduler/configuration": {
			path: "/v1/operator/scheduler/configuration?cas=7",
			body: `{"SchedulerAlgorithm":"spread","PreemptionConfig":{"BatchSchedulerEnabled":true},"CreateIndex":5,
				"ModifyIndex":5}`,
			rpc: "Operator.SchedulerSetConfiguration",
			request: &cluster.SchedulerConfigRequest{
				CAS: true,
				Config: cluster.SchedulerConfiguration{
					SchedulerAlgorithm: "spread",
					PreemptionConfig:   cluster.PreemptionConfig{BatchSchedulerEnabled: true},
					Indexes:            structs.Indexes{CreateIndex: 5, ModifyIndex: 7},
				},
			},
		},
		"PUT /v1/system/gc": {
			path:    "/v1/system/gc",
			body:    "{}",
			rpc:     "System.GarbageCollect",
			request: &structs.WriteRequest{},
		},
	}
	for _, more := range []func() map[string]routeCall{
		childCalls, autopilotCalls, pluginConfigCalls, evalCalls, lossCalls, claimCalls,
		serviceCalls, gossipCalls, rootKeyCalls, variableCalls, joinCalls, revocationCalls, aclCalls,
		admissionCalls, loginCalls, quotaCalls, tagCalls, classCalls, snapshotCalls, agentCalls,
	} {
		maps.Copy(calls, more())
	}
	return calls
}
