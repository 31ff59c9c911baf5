package api

// Route is one line of the API.
type Route struct {
	Methods string // separated by blanks
	Path    string // a pattern of net/http's ServeMux, without its method
	serve   endpoint
	Streams bool // its body or answer is a stream and not bounded
}

const (
	get    = "GET"
	put    = "PUT POST" // the dialect takes both
	remove = "DELETE"
)

// Routes is the whole API. A comment marks what the dialect does not have.
var Routes = []Route{
	{Methods: get, Path: "/v1/jobs", serve: jobList},
	{Methods: put, Path: "/v1/jobs", serve: jobRegister},
	{Methods: put, Path: "/v1/jobs/parse", serve: jobParse},
	{Methods: put, Path: "/v1/validate/job", serve: jobValidate},
	{Methods: get, Path: "/v1/job/{id}", serve: jobGet},
	{Methods: put, Path: "/v1/job/{id}", serve: jobRegister},
	{Methods: remove, Path: "/v1/job/{id}", serve: jobDeregister},
	{Methods: get, Path: "/v1/job/{id}/allocations", serve: jobAllocations},
	{Methods: get, Path: "/v1/job/{id}/evaluations", serve: jobEvaluations},
	{Methods: get, Path: "/v1/job/{id}/summary", serve: jobSummary},
	{Methods: get, Path: "/v1/job/{id}/versions", serve: jobVersions},
	{Methods: put, Path: "/v1/job/{id}/evaluate", serve: jobEvaluate},

	{Methods: get, Path: "/v1/allocations", serve: allocList},
	{Methods: get, Path: "/v1/allocation/{id}", serve: allocGet},
	{Methods: put, Path: "/v1/allocation/{id}/stop", serve: allocStop},
	{Methods: get, Path: "/v1/client/fs/logs/{id}", serve: allocLogs, Streams: true},

	{Methods: get, Path: "/v1/evaluations", serve: evalList},
	{Methods: get, Path: "/v1/evaluation/{id}", serve: evalGet},
	{Methods: get, Path: "/v1/evaluation/{id}/allocations", serve: evalAllocations},

	{Methods: get, Path: "/v1/nodes", serve: nodeList},
	{Methods: get, Path: "/v1/node/{id}", serve: nodeGet},
	{Methods: get, Path: "/v1/node/{id}/allocations", serve: nodeAllocations},
	{Methods: put, Path: "/v1/node/{id}/eligibility", serve: nodeEligibility},
	{Methods: put, Path: "/v1/node/{id}/evaluate", serve: nodeEvaluate},
	{Methods: put, Path: "/v1/node/{id}/purge", serve: nodePurge},

	{Methods: get, Path: "/v1/volumes", serve: volumeList},
	{Methods: put, Path: "/v1/volumes", serve: volumesRegister},
	{Methods: get, Path: "/v1/volumes/external", serve: volumesExternal},
	{Methods: get, Path: "/v1/volume/csi/{id}", serve: volumeGet},
	{Methods: put, Path: "/v1/volume/csi/{id}", serve: volumeRegister},
	{Methods: remove, Path: "/v1/volume/csi/{id}", serve: volumeDeregister},
	{Methods: put, Path: "/v1/volume/csi/{id}/create", serve: volumeCreate},
	{Methods: remove, Path: "/v1/volume/csi/{id}/delete", serve: volumeDelete},
	{Methods: remove, Path: "/v1/volume/csi/{id}/detach", serve: volumeDetach},
	{Methods: get, Path: "/v1/volume/csi/{id}/claims", serve: volumeClaims}, // berth's own

	{Methods: get, Path: "/v1/plugins", serve: pluginList},
	{Methods: get, Path: "/v1/plugin/csi/{id}", serve: pluginGet},
	{Methods: remove, Path: "/v1/plugin/csi/{id}", serve: pluginDelete}, // berth's own

	{Methods: get, Path: "/v1/agent/self", serve: agentSelf},
	{Methods: get, Path: "/v1/agent/members", serve: agentMembers},
	{Methods: get, Path: "/v1/agent/health", serve: agentHealth},
	{Methods: get, Path: "/v1/agent/servers", serve: statusPeers},
	{Methods: get, Path: "/v1/status/leader", serve: statusLeader},
	{Methods: get, Path: "/v1/status/peers", serve: statusPeers},
	{Methods: get, Path: "/v1/regions", serve: regions},
	{Methods: get, Path: "/v1/namespaces", serve: namespaces},
	{Methods: get, Path: "/v1/namespace/{id}", serve: namespaceGet},
	{Methods: get, Path: "/v1/operator/raft/configuration", serve: raftConfiguration},
	{Methods: get, Path: "/v1/operator/snapshot", serve: snapshotSave, Streams: true},
	{Methods: put, Path: "/v1/operator/snapshot", serve: snapshotRestore, Streams: true},
	{Methods: put, Path: "/v1/system/gc", serve: systemGC},
}
