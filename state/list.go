package state

import (
	"cmp"
	"iter"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// The functions of this file are for readers. Each yields a page of a list: the rows from a key on, forwards
// or backwards. They read no row before that key.

// JobsFrom yields the jobs of a namespace whose ID begins with prefix, from a namespace and ID on.
func JobsFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.Job] {
	rows := schema.Jobs.Range(tx, schema.NamespaceScope(ns, prefix), at)
	return schema.Filter(rows, func(j *structs.Job) bool {
		return strings.HasPrefix(j.ID, prefix)
	})
}

// NodesFrom yields the nodes whose ID begins with prefix, from an ID on.
func NodesFrom(tx *ReadTx, prefix string, at Page) iter.Seq[*structs.Node] {
	return schema.Nodes.Range(tx, mvcc.KeyPrefix(prefix), at)
}

// AllocsFrom yields the allocations of a namespace whose ID begins with prefix, from an ID on.
func AllocsFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.Allocation] {
	rows := schema.Allocs.Range(tx, mvcc.KeyPrefix(prefix), at)
	return schema.Filter(rows, func(a *structs.Allocation) bool {
		return schema.InNamespace(a.Namespace, ns)
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
		for row := range schema.EvalAllocs.Scan(tx, eval) {
			lists = append(lists, allocLists(tx, row.Namespace, row.JobID, at)...)
		}
		return lists
	})
	return schema.Filter(rows, func(a *structs.Allocation) bool {
		return a.EvalID == eval
	})
}

// allocLists returns the live allocations of a job and the others, each from an ID on.
func allocLists(tx *ReadTx, ns, job string, at Page) (lists []func() *structs.Allocation) {
	for _, state := range []string{schema.LiveRow, schema.DoneRow} {
		own := at

		// The page has the rest of a key, and the keys of the index begin with the scope.
		if len(at.From) > 0 {
			own.From = append([]string{ns, job, state}, at.From...)
		}
		lists = append(lists, schema.AllocsByJob.RangeFunc(tx, mvcc.KeyOf(ns, job, state), own))
	}
	return lists
}

// mergeByID yields the rows of lists that are sorted by ID in the order of the page.
func mergeByID(at Page, begin func() []func() *structs.Allocation) iter.Seq[*structs.Allocation] {
	return mvcc.MergeSorted(begin, at.Reverse, func(a, b *structs.Allocation) int {
		return cmp.Compare(a.ID, b.ID)
	})
}

// DeploymentsFrom yields the deployments of a namespace whose ID begins with prefix, from an ID on.
func DeploymentsFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.Deployment] {
	rows := schema.Deployments.Range(tx, mvcc.KeyPrefix(prefix), at)
	return schema.Filter(rows, func(d *structs.Deployment) bool {
		return schema.InNamespace(d.Namespace, ns)
	})
}

// EvalsFrom yields the evaluations of a namespace whose ID begins with prefix, from an ID on.
func EvalsFrom(
	tx *ReadTx,
	ns, prefix string,
	at Page,
) iter.Seq[*structs.Evaluation] {
	rows := schema.Evals.Range(tx, mvcc.KeyPrefix(prefix), at)
	return schema.Filter(rows, func(e *structs.Evaluation) bool {
		return schema.InNamespace(e.Namespace, ns)
	})
}
