package state

import (
	"berth/state/schema"
	"berth/structs"
)

// Reap deletes rows that are no longer used. The request was made with an older state, so Reap checks each
// row again and keeps the used ones.
func Reap(tx *WriteTx, p *structs.ReapRequest) error {
	for _, id := range p.Allocs {
		a := Alloc(tx, id)
		if a != nil && a.ClientTerminal() &&
			!schema.ClaimsByNode.Has(tx, a.NodeID, id) &&
			!isCounted(tx, a) {
			reapAlloc(tx, a)
		}
	}

	for _, id := range p.Evals {
		e := Eval(tx, id)
		if e != nil && e.Terminal() {
			schema.Evals.Delete(tx, e)
			refreshJobStatus(tx, e.Namespace, e.JobID)
		}
	}

	for _, k := range p.Jobs {
		j := Job(tx, k.Namespace, k.ID)
		if j != nil && reapableJob(tx, j) {
			deleteJob(tx, j)
		}
	}

	for _, id := range p.Nodes {
		n := Node(tx, id)
		if n != nil && reapableNode(tx, n) {
			deleteNode(tx, n, p.Now)
		}
	}

	return nil
}

func reapAlloc(tx *WriteTx, a *structs.Allocation) {
	schema.Allocs.Delete(tx, a)
	dropUnusedPlugins(tx, a)
	e := Eval(tx, a.EvalID)
	if e != nil && e.Placed &&
		!schema.EvalAllocs.Has(tx, e.ID) {
		e = e.Copy()
		e.Placed = false
		schema.Evals.Put(tx, e)
	}
	if Job(tx, a.Namespace, a.JobID) == nil {
		pruneVersions(tx, a.Namespace, a.JobID)
	}
	refreshJobStatus(tx, a.Namespace, a.JobID)
}

func reapableNode(tx Reader, n *structs.Node) bool {
	return n.Status == structs.NodeDown && !n.Unaccounted &&
		!schema.HoldersByNode.Has(tx, n.ID) &&
		!schema.EndedByNode.Has(tx, n.ID) &&
		!schema.ClaimsByNode.Has(tx, n.ID)
}

func reapableJob(tx Reader, j *structs.Job) bool {
	return j.Status == structs.JobDead &&
		!schema.AllocsByJob.Has(tx, j.Namespace, j.ID) &&
		!schema.EvalsByJob.Has(tx, j.Namespace, j.ID)
}
