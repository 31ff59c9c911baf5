package api

import "berth/structs"

// Route is one line of the API.
type Route struct {
	Methods string // separated by blanks
	Path    string // a pattern of net/http's ServeMux, without its method
	serve   endpoint
	Jobs    bool // its body may hold jobs or volumes, and be larger than others
	Streams bool // its body or answer is a stream and not bounded
	Sheds   bool // it is a read that may be refused while a server is asked for more than it can do (see Sheds)
}

// mostBody bounds the body of a request, in bytes; 0 does not.
func (r Route) mostBody() int64 {
	switch {
	case r.Streams:
		return 0
	case r.Jobs:
		return structs.MaxHTTPJob
	}
	return structs.MaxHTTPBody
}

const (
	get    = "GET"
	put    = "PUT POST" // the dialect takes both
	remove = "DELETE"
)

// Routes is the whole API. A comment marks what the dialect does not have.
var Routes = []Route{
	{Methods: get, Path: "/v1/jobs", serve: jobList, Sheds: true},
	{Methods: put, Path: "/v1/jobs", serve: jobRegister, Jobs: true},
	{Methods: put, Path: "/v1/jobs/parse", serve: jobParse, Jobs: true},
	{Methods: put, Path: "/v1/validate/job", serve: jobValidate, Jobs: true},
	{Methods: get, Path: "/v1/job/{id}", serve: jobGet, Sheds: true},
	{Methods: put, Path: "/v1/job/{id}", serve: jobRegister, Jobs: true},
	{Methods: remove, Path: "/v1/job/{id}", serve: jobDeregister},
	{Methods: get, Path: "/v1/job/{id}/allocations", serve: jobAllocations, Sheds: true},
	{Methods: get, Path: "/v1/job/{id}/evaluations", serve: jobEvaluations, Sheds: true},
	{Methods: get, Path: "/v1/job/{id}/summary", serve: jobSummary, Sheds: true},
	{Methods: get, Path: "/v1/job/{id}/versions", serve: jobVersions, Sheds: true},
	{Methods: get, Path: "/v1/job/{id}/deployment", serve: jobDeployment, Sheds: true},
	{Methods: get, Path: "/v1/job/{id}/deployments", serve: jobDeployments, Sheds: true},
	{Methods: put, Path: "/v1/job/{id}/evaluate", serve: jobEvaluate},

	{Methods: get, Path: "/v1/deployments", serve: deploymentList},

	{Methods: get, Path: "/v1/allocations", serve: allocList, Sheds: true},
	{Methods: get, Path: "/v1/allocation/{id}", serve: allocGet, Sheds: true},
	{Methods: put, Path: "/v1/allocation/{id}/stop", serve: allocStop},
	{Methods: get, Path: "/v1/client/fs/logs/{id}", serve: allocLogs, Streams: true},

	{Methods: get, Path: "/v1/client/stats", serve: hostStats},

	{Methods: get, Path: "/v1/evaluations", serve: evalList, Sheds: true},
	{Methods: get, Path: "/v1/evaluation/{id}", serve: evalGet, Sheds: true},
	{Methods: get, Path: "/v1/evaluation/{id}/allocations", serve: evalAllocations, Sheds: true},

	{Methods: get, Path: "/v1/nodes", serve: nodeList, Sheds: true},
	{Methods: get, Path: "/v1/node/{id}", serve: nodeGet, Sheds: true},
	{Methods: get, Path: "/v1/node/{id}/allocations", serve: nodeAllocations, Sheds: true},
	{Methods: put, Path: "/v1/node/{id}/eligibility", serve: nodeEligibility},
	{Methods: put, Path: "/v1/node/{id}/evaluate", serve: nodeEvaluate},
	{Methods: put, Path: "/v1/node/{id}/purge", serve: nodePurge},

	{Methods: get, Path: "/v1/volumes", serve: volumeList, Sheds: true},
	{Methods: put, Path: "/v1/volumes", serve: volumesRegister, Jobs: true},
	{Methods: get, Path: "/v1/volumes/external", serve: volumesExternal},
	{Methods: get, Path: "/v1/volume/csi/{id}", serve: volumeGet, Sheds: true},
	{Methods: put, Path: "/v1/volume/csi/{id}", serve: volumeRegister, Jobs: true},
	{Methods: remove, Path: "/v1/volume/csi/{id}", serve: volumeDeregister},
	{Methods: put, Path: "/v1/volume/csi/{id}/create", serve: volumeCreate, Jobs: true},
	{Methods: remove, Path: "/v1/volume/csi/{id}/delete", serve: volumeDelete},
	{Methods: remove, Path: "/v1/volume/csi/{id}/detach", serve: volumeDetach},
	{Methods: put, Path: "/v1/volume/csi/{id}/retry", serve: volumeRetry},   // berth's own
	{Methods: get, Path: "/v1/volume/csi/{id}/claims", serve: volumeClaims}, // berth's own

	{Methods: get, Path: "/v1/plugins", serve: pluginList, Sheds: true},
	{Methods: get, Path: "/v1/plugin/csi/{id}", serve: pluginGet, Sheds: true},
	{Methods: remove, Path: "/v1/plugin/csi/{id}", serve: pluginDelete}, // berth's own

	{Methods: get, Path: "/v1/agent/self", serve: agentSelf},
	{Methods: get, Path: "/v1/agent/members", serve: agentMembers},
	{Methods: get, Path: "/v1/agent/health", serve: agentHealth},
	{Methods: put, Path: "/v1/agent/leave", serve: agentLeave}, // berth's own
	{Methods: put, Path: "/v1/agent/force-leave", serve: agentForceLeave},
	{Methods: get, Path: "/v1/agent/servers", serve: statusPeers},
	{Methods: get, Path: "/v1/metrics", serve: metricsGet},
	{Methods: get, Path: "/v1/status/leader", serve: statusLeader},
	{Methods: get, Path: "/v1/status/peers", serve: statusPeers},
	{Methods: get, Path: "/v1/regions", serve: regions},
	{Methods: get, Path: "/v1/namespaces", serve: namespaces},
	{Methods: get, Path: "/v1/namespace/{id}", serve: namespaceGet},
	{Methods: get, Path: "/v1/operator/raft/configuration", serve: raftConfiguration},
	{Methods: remove, Path: "/v1/operator/raft/peer", serve: raftRemovePeer},
	{Methods: get, Path: "/v1/operator/snapshot", serve: snapshotSave, Streams: true},
	{Methods: put, Path: "/v1/operator/snapshot", serve: snapshotRestore, Streams: true},
	{Methods: put, Path: "/v1/system/gc", serve: systemGC},
}
