package state

import (
	"iter"

	"berth/structs"
)

// Lists that only tests read: each looks at all rows that there are.

// Volumes yields the volumes of a namespace whose ID begins so.
func Volumes(tx *Read, ns, prefix string) iter.Seq[*structs.CSIVolume] {
	if ns != structs.AllNamespaces {
		return volumes.prefix(tx, ns, prefix)
	}
	return withPrefix(volumes.all(tx), prefix, func(v *structs.CSIVolume) string { return v.ID })
}

// Jobs yields the jobs of a namespace whose ID begins so.
func Jobs(tx *Read, ns, prefix string) iter.Seq[*structs.Job] {
	if ns != structs.AllNamespaces {
		return jobs.prefix(tx, ns, prefix)
	}
	return withPrefix(jobs.all(tx), prefix, func(j *structs.Job) string { return j.ID })
}

// NodesByPrefix yields the nodes whose ID begins so.
func NodesByPrefix(tx *Read, prefix string) iter.Seq[*structs.Node] { return nodes.prefix(tx, prefix) }

// Claims yields the claims of a namespace.
func Claims(tx *Read, ns string) iter.Seq[*structs.CSIClaim] {
	if ns == structs.AllNamespaces {
		return claims.all(tx)
	}
	return claims.all(tx, ns)
}

// EndedClaims yields the claims that outlive their allocations: their nodes have not let go yet.
func EndedClaims(tx *Read) iter.Seq[*structs.CSIClaim] { return endedClaims.all(tx) }

// Evals yields the evaluations of a namespace whose ID begins so.
func Evals(tx *Read, ns, prefix string) iter.Seq[*structs.Evaluation] {
	return inNamespace(evals.prefix(tx, prefix), ns, func(e *structs.Evaluation) string { return e.Namespace })
}

// EvalsByStatus yields the evaluations in one of the states. It goes through all there are.
func EvalsByStatus(tx *Read, status string) iter.Seq[*structs.Evaluation] {
	return func(yield func(*structs.Evaluation) bool) {
		for e := range evals.all(tx) {
			if e.Status == status && !yield(e) {
				return
			}
		}
	}
}

// Allocs yields the allocations of a namespace by ID.
func Allocs(tx *Read, ns string) iter.Seq[*structs.Allocation] { return AllocsByPrefix(tx, ns, "") }

// AllocsByPrefix yields the allocations of a namespace whose ID begins so.
func AllocsByPrefix(tx *Read, ns, prefix string) iter.Seq[*structs.Allocation] {
	return inNamespace(allocs.prefix(tx, prefix), ns, func(a *structs.Allocation) string { return a.Namespace })
}
