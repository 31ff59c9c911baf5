package state

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/internal/ordered"
	"berth/structs"
)

// The functions of this file are for readers. Each yields a page of a list: the rows from a key on, forwards
// or backwards. They read no row before that key.

// namespaceScope returns the scope of the keys of a namespace whose next part begins with prefix. All
// namespaces have the scope of all keys.
func namespaceScope(ns, prefix string) Key {
	if ns == structs.AllNamespaces {
		return mvcc.KeyOf()
	}
	return mvcc.KeyPrefix(ns, prefix)
}

// filter yields the rows that match.
func filter[T any](rows iter.Seq[*T], matches func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for r := range rows {
			if matches(r) && !yield(r) {
				return
			}
		}
	}
}

// inNamespace reports whether a row of one namespace belongs to a list of the other. The list of all
// namespaces has every row.
func inNamespace(row, list string) bool {
	return list == structs.AllNamespaces || row == list
}

// VolumesFrom yields the volumes of a namespace whose ID begins with prefix, from a namespace and ID on.
func VolumesFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.CSIVolume] {
	rows := volumes.Range(tx, namespaceScope(ns, prefix), at)
	return filter(rows, func(v *structs.CSIVolume) bool {
		return strings.HasPrefix(v.ID, prefix)
	})
}

// JobsFrom yields the jobs of a namespace whose ID begins with prefix, from a namespace and ID on.
func JobsFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.Job] {
	rows := jobs.Range(tx, namespaceScope(ns, prefix), at)
	return filter(rows, func(j *structs.Job) bool {
		return strings.HasPrefix(j.ID, prefix)
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
func AllocsFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.Allocation] {
	rows := allocs.Range(tx, mvcc.KeyPrefix(prefix), at)
	return filter(rows, func(a *structs.Allocation) bool {
		return inNamespace(a.Namespace, ns)
	})
}

// AllocsByJobFrom yields the allocations of a job in the order of their IDs, from an ID on.
func AllocsByJobFrom(
	tx *ReadTx,
	ns, job string,
	at Page,
) iter.Seq[*structs.Allocation] {
	return mergeByID(at, func() []func() *structs.Allocation {
		return allocLists(tx, ns, job, at)
	})
}

// AllocsByEvalFrom yields the allocations that an evaluation placed in the order of their IDs, from an ID on.
// It reads all allocations of the job, because a key for each allocation of an evaluation would cost a
// placement more than such reads are worth.
func AllocsByEvalFrom(tx *ReadTx, eval string, at Page) iter.Seq[*structs.Allocation] {
	rows := mergeByID(at, func() (lists []func() *structs.Allocation) {
		for row := range evalAllocs.Scan(tx, eval) {
			lists = append(lists, allocLists(tx, row.Namespace, row.JobID, at)...)
		}
		return lists
	})
	return filter(rows, func(a *structs.Allocation) bool {
		return a.EvalID == eval
	})
}

// allocLists returns the live allocations of a job and the others, each from an ID on.
func allocLists(tx *ReadTx, ns, job string, at Page) (lists []func() *structs.Allocation) {
	for _, state := range []string{liveRow, doneRow} {
		own := at
		if len(at.From) > 0 {
			own.From = append([]string{ns, job, state}, at.From...)
		}
		lists = append(lists, allocsByJob.RangeFunc(tx, mvcc.KeyOf(ns, job, state), own))
	}
	return lists
}

func mergeByID(at Page, begin func() []func() *structs.Allocation) iter.Seq[*structs.Allocation] {
	return ordered.Merge(begin, at.Reverse, func(a, b *structs.Allocation) int {
		return cmp.Compare(a.ID, b.ID)
	})
}

// DeploymentsFrom yields the deployments of a namespace whose ID begins with prefix, from an ID on.
func DeploymentsFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.Deployment] {
	rows := deployments.Range(tx, mvcc.KeyPrefix(prefix), at)
	return filter(rows, func(d *structs.Deployment) bool {
		return inNamespace(d.Namespace, ns)
	})
}

// EvalsFrom yields the evaluations of a namespace whose ID begins with prefix, from an ID on.
func EvalsFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.Evaluation] {
	rows := evals.Range(tx, mvcc.KeyPrefix(prefix), at)
	return filter(rows, func(e *structs.Evaluation) bool {
		return inNamespace(e.Namespace, ns)
	})
}

// ClaimsFrom yields the claims of a namespace on volumes whose ID begins with prefix, from a namespace and
// volume on.
func ClaimsFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.CSIClaim] {
	rows := claims.Range(tx, namespaceScope(ns, prefix), at)
	return filter(rows, func(c *structs.CSIClaim) bool {
		return strings.HasPrefix(c.VolumeID, prefix)
	})
}

// ClaimsOf yields a volume's claims, by allocation.
func ClaimsOf(tx *ReadTx, ns, volume string) iter.Seq[*structs.CSIClaim] {
	return claims.Scan(tx, ns, volume)
}

// QueuePage is a part of the queue of a volume.
type QueuePage struct {
	From    *structs.CSIClaim // the position of the first one, which need not exist; nil is the beginning
	Reverse bool              // the last claim first; then From is the end in the order of the queue
}

// QueueFrom yields the claims of a volume in the order of its queue. It reports false if the index of classes
// does not have all claims: it omits granted claims of a class that does not conflict with itself.
func QueueFrom(
	tx *ReadTx, ns, volume string, p QueuePage,
) (rows iter.Seq[*structs.CSIClaim], sorted bool) {
	var classes [][]string
	for _, n := range classCounts(tx, ns, volume) {
		k := n.Class()
		if n.Granted > 0 && !k.Conflicts(k) {
			return nil, false
		}

		for _, state := range claimStates {
			if *n.In(state) > 0 {
				scope := []string{ns, volume, state, classKey(k)}
				classes = append(classes, scope)
			}
		}
	}

	claims.Has(tx, ns, volume) // so that a blocking query watches all of them
	queuesFrom := func() (queues []func() *structs.CSIClaim) {
		for _, scope := range classes {
			at := Page{Reverse: p.Reverse}
			if p.From != nil {
				created := mvcc.Ordered(p.From.CreateIndex)
				seq := mvcc.Ordered(uint64(p.From.Seq))
				at.From = append(slices.Clone(scope), created, seq)
			}

			queues = append(queues, claimsByClass.RangeFunc(tx, mvcc.KeyOf(scope...), at))
		}
		return queues
	}

	return ordered.Merge(queuesFrom, p.Reverse, inQueueOrder), true
}
