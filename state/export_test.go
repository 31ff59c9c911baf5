package state

import (
	"iter"

	"berth/structs"
)

// These lists exist only for tests.

// Plugins yields the plugins whose ID begins so.
func Plugins(tx *ReadTx, prefix string) iter.Seq[*structs.CSIPluginRow] {
	return plugins.Prefix(tx, prefix)
}

// VolumesByPlugin yields a plugin's volumes in all namespaces.
func VolumesByPlugin(tx *ReadTx, plugin string) iter.Seq[*structs.CSIVolume] {
	return volumesByPlugin.Scan(tx, plugin)
}

// WaitingClaims yields the claims that wait, by plugin.
func WaitingClaims(tx *ReadTx) iter.Seq[*structs.CSIClaim] { return waitingByPlugin.Scan(tx) }

// AllocsByPlugin yields the allocations that run a plugin, those that ended first.
func AllocsByPlugin(tx *ReadTx, plugin string) iter.Seq[*structs.Allocation] {
	return allocsByPlugin.Scan(tx, plugin)
}

// Volumes yields the volumes of a namespace whose ID has a prefix.
func Volumes(tx *ReadTx, ns, prefix string) iter.Seq[*structs.CSIVolume] {
	if ns != structs.AllNamespaces {
		return volumes.Prefix(tx, ns, prefix)
	}
	return withPrefix(volumes.Scan(tx), prefix, func(v *structs.CSIVolume) string { return v.ID })
}

// Jobs yields the jobs of a namespace whose ID has a prefix.
func Jobs(tx *ReadTx, ns, prefix string) iter.Seq[*structs.Job] {
	if ns != structs.AllNamespaces {
		return jobs.Prefix(tx, ns, prefix)
	}
	return withPrefix(jobs.Scan(tx), prefix, func(j *structs.Job) string { return j.ID })
}

// NodesByPrefix yields the nodes whose ID has a prefix.
func NodesByPrefix(tx *ReadTx, prefix string) iter.Seq[*structs.Node] {
	return nodes.Prefix(tx, prefix)
}

// Claims yields the claims of a namespace.
func Claims(tx *ReadTx, ns string) iter.Seq[*structs.CSIClaim] {
	if ns == structs.AllNamespaces {
		return claims.Scan(tx)
	}
	return claims.Scan(tx, ns)
}

// EndedClaims yields the claims whose allocations have ended and whose nodes have not released the volume.
func EndedClaims(tx *ReadTx) iter.Seq[*structs.CSIClaim] { return endedClaims.Scan(tx) }

// Evals yields the evaluations of a namespace whose ID has a prefix.
func Evals(tx *ReadTx, ns, prefix string) iter.Seq[*structs.Evaluation] {
	return inNamespace(evals.Prefix(tx, prefix), ns, func(e *structs.Evaluation) string { return e.Namespace })
}

// EvalsByStatus yields the evaluations in one of the states. It goes through all there are.
func EvalsByStatus(tx *ReadTx, status string) iter.Seq[*structs.Evaluation] {
	return func(yield func(*structs.Evaluation) bool) {
		for e := range evals.Scan(tx) {
			if e.Status == status && !yield(e) {
				return
			}
		}
	}
}

// Allocs yields the allocations of a namespace by ID.
func Allocs(tx *ReadTx, ns string) iter.Seq[*structs.Allocation] { return AllocsByPrefix(tx, ns, "") }

// AllocsByPrefix yields the allocations of a namespace whose ID has a prefix.
func AllocsByPrefix(tx *ReadTx, ns, prefix string) iter.Seq[*structs.Allocation] {
	return inNamespace(allocs.Prefix(tx, prefix), ns, func(a *structs.Allocation) string { return a.Namespace })
}
