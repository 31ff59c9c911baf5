package state

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/structs"
)

// These functions are for readers. Each yields a page of a list: the rows from a key on, forwards or
// backwards. They read no row before that key.

// within returns the scope of the keys of a namespace whose next part begins with prefix. All namespaces have
// the scope of all keys.
func within(ns, prefix string) Key {
	if ns == structs.AllNamespaces {
		return mvcc.KeyOf()
	}
	return mvcc.KeyPrefix(ns, prefix)
}

// inNamespace leaves out the rows of other namespaces; "*" leaves out none.
func inNamespace[T any](rows iter.Seq[*T], ns string, of func(*T) string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for r := range rows {
			if (ns == structs.AllNamespaces || of(r) == ns) &&
				!yield(r) {
				return
			}
		}
	}
}

// withPrefix yields the rows whose ID has the prefix.
func withPrefix[T any](rows iter.Seq[*T], prefix string, id func(*T) string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for r := range rows {
			if strings.HasPrefix(id(r), prefix) &&
				!yield(r) {
				return
			}
		}
	}
}

// VolumesFrom yields the volumes of a namespace whose ID begins with prefix, from a namespace and ID on.
func VolumesFrom(tx *ReadTx, ns, prefix string, at Page) iter.Seq[*structs.CSIVolume] {
	rows := volumes.Range(tx, within(ns, prefix), at)
	return withPrefix(rows, prefix, func(v *structs.CSIVolume) string {
		return v.ID
	})
}

// JobsFrom yields the jobs of a namespace whose ID begins with prefix, from a namespace and ID on.
func JobsFrom(tx *ReadTx, ns, prefix string, at Page) iter.Seq[*structs.Job] {
	rows := jobs.Range(tx, within(ns, prefix), at)
	return withPrefix(rows, prefix, func(j *structs.Job) string {
		return j.ID
	})
}

// NodesFrom yields the nodes whose ID begins with prefix, from an ID on.
func NodesFrom(tx *ReadTx, prefix string, at Page) iter.Seq[*structs.Node] {
	return nodes.Range(tx, mvcc.KeyPrefix(prefix), at)
}

// PluginsFrom yields the plugins whose ID begins with prefix, from an ID on.
func PluginsFrom(tx *ReadTx, prefix string, at Page) iter.Seq[*structs.CSIPluginRow] {
	return plugins.Range(tx, mvcc.KeyPrefix(prefix), at)
}

// AllocsFrom yields the allocations of a namespace whose ID begins with prefix, from an ID on.
func AllocsFrom(tx *ReadTx, ns, prefix string, at Page) iter.Seq[*structs.Allocation] {
	rows := allocs.Range(tx, mvcc.KeyPrefix(prefix), at)
	return inNamespace(rows, ns, func(a *structs.Allocation) string {
		return a.Namespace
	})
}

// AllocsByJobFrom yields the allocations of a job in the order of their IDs, from an ID on.
func AllocsByJobFrom(tx *ReadTx, ns, job string, at Page) iter.Seq[*structs.Allocation] {
	of := func(state string) func() *structs.Allocation {
		own := at
		if len(at.From) > 0 {
			own.From = append([]string{ns, job, state}, at.From...)
		}
		return allocsByJob.RangeFunc(tx,
			mvcc.KeyOf(ns, job, state), own)
	}
	both := func() []func() *structs.Allocation {
		return []func() *structs.Allocation{of(liveRow), of(doneRow)}
	}
	byID := func(a, b *structs.Allocation) int {
		return cmp.Compare(a.ID, b.ID)
	}
	return mvcc.MergeSorted(both, at.Reverse, byID)
}

// AllocsByEvalFrom is AllocsByEval from an ID on.
func AllocsByEvalFrom(tx *ReadTx, eval string, at Page) iter.Seq[*structs.Allocation] {
	if len(at.From) > 0 {
		at.From = append([]string{eval}, at.From...)
	}
	return allocsByEval.Range(tx, mvcc.KeyOf(eval), at)
}

// EvalsFrom yields the evaluations of a namespace whose ID begins with prefix, from an ID on.
func EvalsFrom(tx *ReadTx, ns, prefix string, at Page) iter.Seq[*structs.Evaluation] {
	rows := evals.Range(tx, mvcc.KeyPrefix(prefix), at)
	return inNamespace(rows, ns, func(e *structs.Evaluation) string {
		return e.Namespace
	})
}

// ClaimsFrom yields the claims of a namespace on volumes whose ID begins with prefix, from a namespace and
// volume on.
func ClaimsFrom(tx *ReadTx, ns, prefix string, at Page) iter.Seq[*structs.CSIClaim] {
	rows := claims.Range(tx, within(ns, prefix), at)
	return withPrefix(rows, prefix, func(c *structs.CSIClaim) string {
		return c.VolumeID
	})
}

// ClaimsOf yields a volume's claims, by allocation.
func ClaimsOf(tx *ReadTx, ns, volume string) iter.Seq[*structs.CSIClaim] {
	return claims.Scan(tx, ns, volume)
}

// QueueFrom yields the claims of a volume in the order of its queue, from the place of a claim on; the
// claim need not exist, and nil is the beginning. It reports false where the index of classes does not have
// all claims: it leaves out granted claims of a class that does not conflict with itself.
func QueueFrom(
	tx *ReadTx, ns, volume string, from *structs.CSIClaim, back bool,
) (rows iter.Seq[*structs.CSIClaim], sorted bool) {
	var classes [][]string
	for _, n := range classCounts(tx, ns, volume) {
		k := n.Class()
		if n.Granted > 0 && !k.Conflicts(k) {
			return nil, false
		}
		for _, state := range claimStates {
			if *n.In(state) > 0 {
				classes = append(classes, []string{ns, volume, state, classKey(k)})
			}
		}
	}
	claims.Has(tx, ns, volume) // so that a blocking query watches all of them
	return mvcc.MergeSorted(func() (queues []func() *structs.CSIClaim) {
		for _, scope := range classes {
			at := Page{Reverse: back}
			if from != nil {
				place := []string{mvcc.Ordered(from.CreateIndex), mvcc.Ordered(uint64(from.Seq))}
				at.From = append(slices.Clone(scope), place...)
			}
			queues = append(queues,
				claimsByClass.RangeFunc(tx, mvcc.KeyOf(scope...), at))
		}
		return queues
	}, back, inQueueOrder), true
}
