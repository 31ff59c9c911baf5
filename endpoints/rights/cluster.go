package rights

import (
	"cmp"
	"slices"
	"strings"

	"berth/acl"
	"berth/internal/mvcc"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/admission"
	"berth/structs/cluster"
)

// The rights on namespaces and node pools. The lists of both show what the caller may see.
var (
	NamespaceList = Seen("any right in the namespace", func(q Question, _, name string) bool {
		return q.ACL.SeesNamespace(name)
	})
	NamespaceGet = Where("any right in the namespace", func(q Question) bool {
		return q.ACL.SeesNamespace(q.Req.(*cluster.NamespaceGetRequest).Name)
	})

	NodePoolList = Seen("node_pool: read", func(q Question, _, name string) bool {
		return q.ACL.NodePool(name, acl.PoolRead)
	})
	NodePoolGet   = NodePool(acl.PoolRead, poolOf)
	NodePoolNodes = Both(NodePoolGet, NodeRead)
	NodePoolJobs  = Both(NodePoolGet, List(acl.ListJobs))

	NodePoolApply = NodePool(acl.PoolWrite, func(r *cluster.NodePoolApplyRequest) string {
		if r.Pool == nil {
			return ""
		}
		return r.Pool.Name
	})
	NodePoolDelete = NodePool(acl.PoolDelete,
		func(r *cluster.NodePoolDeleteRequest) string { return r.Name })
)

func poolOf(r *cluster.NodePoolGetRequest) string { return r.Name }

// NodeAllocs is the right to list the allocations of a node. The list shows allocations of namespaces in
// which the caller may read jobs.
var NodeAllocs = Both(NodeRead,
	Seen("namespace: read-job", func(q Question, namespace, _ string) bool {
		return q.ACL.Namespace(namespace, acl.ReadJob)
	}))

// The rights on plugins and drains. Their answers have the allocations of namespaces in which the caller may
// read jobs.
var (
	PluginGet   = Both(PluginRead, readsJobs)
	DrainStatus = Both(NodeRead, readsJobs)
)

// readsJobs shows the rows of namespaces in which the caller may read jobs.
var readsJobs = Seen("", func(q Question, namespace, _ string) bool {
	return q.ACL.Namespace(namespace, acl.ReadJob)
})

// Search is the right to search. It shows the matches that the caller could list. The ID of a match is its
// context, a slash and its own ID.
var Search = Seen("for each match the right to list it", seesMatch)

func seesMatch(q Question, namespace, match string) bool {
	c, id, _ := strings.Cut(match, "/")
	switch c {
	case structs.SearchNodes:
		return q.ACL.NodeRead()
	case structs.SearchNodePools:
		return q.ACL.NodePool(id, acl.PoolRead)
	case structs.SearchNamespaces:
		return q.ACL.SeesNamespace(id)
	case structs.SearchPlugins:
		return q.ACL.PluginList()
	case structs.SearchVolumes:
		return q.ACL.Volume(namespace, id, acl.VolumeRead)
	case structs.SearchVars:
		return q.ACL.Variable(namespace, id, acl.VariablesList)
	}
	return q.ACL.Namespace(namespace, acl.ReadJob)
}

// Check is the right that a request of an agent names: of its caller, for a route of the agent.
var Check = Where("what the request names", func(q Question) bool {
	req := q.Req.(*access.CheckRequest)
	cluster := clusterNeeds[req.Needs]
	if cluster != nil {
		return cluster(q.ACL)
	}

	capability, ok := namespaceNeeds[req.Needs]
	if !ok {
		return q.ACL.IsManagement() // a name that only a newer version knows
	}

	ns := req.RequestNamespace()
	if req.AllocID != "" {
		a := state.Alloc(q.Tx, req.AllocID)
		if a == nil {
			return q.ACL.IsManagement() // a node may still have its files: nobody can tell whose they are
		}
		ns = a.Namespace
	}
	beyond := capability == acl.AllocExec && runsAsHost(q.Tx, req)
	return q.ACL.Namespace(ns, capability) && (!beyond || q.ACL.Namespace(ns, acl.AllocNodeExec))
})

// runsAsHost reports whether a command in a task runs without a sandbox: then it needs alloc-node-exec
// besides.
func runsAsHost(tx mvcc.Reader, req *access.CheckRequest) bool {
	a := state.Alloc(tx, req.AllocID)
	if a == nil {
		return false
	}
	job := state.JobOf(tx, a)
	if job == nil || job.Group(a.TaskGroup) == nil {
		return true // nobody can tell
	}
	return slices.ContainsFunc(job.Group(a.TaskGroup).Tasks, func(t *structs.Task) bool {
		return len(privilegesOf(t)) > 0 && (req.Task == "" || req.Task == t.Name)
	})
}

var clusterNeeds = map[access.Needs]func(*acl.ACL) bool{
	access.NeedsAgentRead:     (*acl.ACL).AgentRead,
	access.NeedsAgentWrite:    (*acl.ACL).AgentWrite,
	access.NeedsNodeRead:      (*acl.ACL).NodeRead,
	access.NeedsNodeWrite:     (*acl.ACL).NodeWrite,
	access.NeedsOperatorRead:  (*acl.ACL).OperatorRead,
	access.NeedsOperatorWrite: (*acl.ACL).OperatorWrite,
	access.NeedsManagement:    (*acl.ACL).IsManagement,
	access.NeedsNothing:       func(*acl.ACL) bool { return true }, // but a valid token, if one is given
}

var namespaceNeeds = map[access.Needs]acl.Capability{
	access.NeedsParseJob:  acl.ParseJob,
	access.NeedsReadJob:   acl.ReadJob,
	access.NeedsReadFS:    acl.ReadFS,
	access.NeedsReadLogs:  acl.ReadLogs,
	access.NeedsAllocExec: acl.AllocExec,
	access.NeedsLifecycle: acl.AllocLifecycle,
}

func allocNamespace(tx mvcc.Reader, id string) []string {
	a := state.Alloc(tx, id)
	if a == nil {
		return nil
	}
	return []string{a.Namespace}
}

// RuleTest is the right to evaluate an admission rule on a job or a volume. Its outcome tells of the stored
// one.
var RuleTest = Both(OperatorRead,
	Where("namespace: read-job, for a volume volume: read", readsTested))

func readsTested(q Question) bool {
	req := q.Req.(*admission.RuleTestRequest)
	ns := req.RequestNamespace()
	if req.Job != nil {
		return q.ACL.Namespace(cmp.Or(req.Job.Namespace, ns), acl.ReadJob)
	}
	return req.Volume == nil || q.ACL.Volume(cmp.Or(req.Volume.Namespace, ns), req.Volume.ID, acl.VolumeRead)
}
