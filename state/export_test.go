package state

import (
	"iter"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// These lists exist only for tests.

// Plugins yields the plugins whose ID has a prefix.
func Plugins(tx *ReadTx, prefix string) iter.Seq[*structs.CSIPluginRow] {
	return schema.Plugins.Range(tx, mvcc.KeyPrefix(prefix), mvcc.Page{})
}

// WaitingClaims yields the claims that wait, by plugin.
func WaitingClaims(tx *ReadTx) iter.Seq[*structs.CSIClaim] {
	return schema.WaitingByPlugin.Scan(tx)
}

// Volumes yields the volumes of a namespace whose ID has a prefix.
func Volumes(tx *ReadTx, ns, prefix string) iter.Seq[*structs.CSIVolume] {
	if ns != structs.AllNamespaces {
		return schema.Volumes.Range(tx, mvcc.KeyPrefix(ns, prefix), mvcc.Page{})
	}
	return schema.Filter(schema.Volumes.Scan(tx), func(v *structs.CSIVolume) bool {
		return strings.HasPrefix(v.ID, prefix)
	})
}

// Jobs yields the jobs of a namespace whose ID has a prefix.
func Jobs(tx *ReadTx, ns, prefix string) iter.Seq[*structs.Job] {
	if ns != structs.AllNamespaces {
		return schema.Jobs.Range(tx, mvcc.KeyPrefix(ns, prefix), mvcc.Page{})
	}
	return schema.Filter(schema.Jobs.Scan(tx), func(j *structs.Job) bool {
		return strings.HasPrefix(j.ID, prefix)
	})
}

// NodesByPrefix yields the nodes whose ID has a prefix.
func NodesByPrefix(tx *ReadTx, prefix string) iter.Seq[*structs.Node] {
	return schema.Nodes.Range(tx, mvcc.KeyPrefix(prefix), mvcc.Page{})
}

// Claims yields the claims of a namespace.
func Claims(tx *ReadTx, ns string) iter.Seq[*structs.CSIClaim] {
	if ns == structs.AllNamespaces {
		return schema.Claims.Scan(tx)
	}
	return schema.Claims.Scan(tx, ns)
}

// Evals yields the evaluations of a namespace whose ID has a prefix.
func Evals(tx *ReadTx, ns, prefix string) iter.Seq[*structs.Evaluation] {
	rows := schema.Evals.Range(tx, mvcc.KeyPrefix(prefix), mvcc.Page{})
	return schema.Filter(rows, func(e *structs.Evaluation) bool {
		return schema.InNamespace(e.Namespace, ns)
	})
}

// EvalsByStatus yields the evaluations in a state. It reads all evaluations.
func EvalsByStatus(tx *ReadTx, status string) iter.Seq[*structs.Evaluation] {
	return schema.Filter(schema.Evals.Scan(tx), func(e *structs.Evaluation) bool {
		return e.Status == status
	})
}

// Allocs yields the allocations of a namespace by ID.
func Allocs(tx *ReadTx, ns string) iter.Seq[*structs.Allocation] {
	return AllocsByPrefix(tx, ns, "")
}

// AllocsByPrefix yields the allocations of a namespace whose ID has a prefix.
func AllocsByPrefix(tx *ReadTx, ns, prefix string) iter.Seq[*structs.Allocation] {
	rows := schema.Allocs.Range(tx, mvcc.KeyPrefix(prefix), mvcc.Page{})
	return schema.Filter(rows, func(a *structs.Allocation) bool {
		return schema.InNamespace(a.Namespace, ns)
	})
}

// NodeHealth has the rows with the health of the parts of a node.
type NodeHealth = nodeHealth

// HealthOf returns the health of a node with plugin instances.
func HealthOf(n *structs.Node, instances ...*structs.CSIPluginInstance) NodeHealth {
	return nodeHealth{n, instances}
}

// The bounds and texts that tests compare.
const (
	KeptEvents       = keptEvents
	KeptVersions     = keptVersions
	LeaveMessage     = leaveMessage
	LongestDataChain = longestDataChain
	ManyNodes        = manyNodes
	MostLeftovers    = mostLeftovers
	VolumeGrows      = volumeGrows
	VolumeMarked     = volumeMarked
)

// The functions that tests call and no other package.
var (
	CheckEvalAllocs = checkEvalAllocs
	CheckNodeUses   = checkNodeUses
	ComputedClass   = computedClass
	DeleteDone      = deleteDone
	EventsBetween   = eventsBetween
	LastFence       = lastFence
	PutAlloc        = putAlloc
	PutEval         = putEval
	PutUnaccounted  = putUnaccounted
	RevertJob       = revertJob
	ShallowCopy     = shallowCopy
)
