package state

import (
	"berth/state/jobvolumes"
	"berth/state/schema"
	"berth/structs"
)

// Reap deletes rows that are no longer used. The request was made with an older state, so Reap checks each
// row again and keeps the used ones.
func Reap(tx *WriteTx, p *structs.ReapRequest) error {
	for _, id := range p.Allocs {
		a := Alloc(tx, id)

		// A claim needs its allocation until the node has released the volume (csi.CheckClaims), and an
		// active deployment needs those that it counts.
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
			deleteJob(tx, j, p.Now)
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

	// The last allocation makes its evaluation deletable.
	e := Eval(tx, a.EvalID)
	if e != nil && e.Placed &&
		!schema.EvalAllocs.Has(tx, e.ID) {
		e = e.Copy()
		e.Placed = false
		schema.Evals.Put(tx, e)
	}

	// The versions of a purged job go with the last allocation that runs them.
	if Job(tx, a.Namespace, a.JobID) == nil {
		pruneVersions(tx, a.Namespace, a.JobID)
	}
	refreshJobStatus(tx, a.Namespace, a.JobID)
}

// reapableNode reports whether a node that is down has left nothing behind. An allocation needs the row of
// its node until its end, and shows it to users after that.
func reapableNode(tx Reader, n *structs.Node) bool {
	return n.Status == structs.NodeDown && !n.Unaccounted &&
		!schema.HoldersByNode.Has(tx, n.ID) &&
		!schema.EndedByNode.Has(tx, n.ID) &&
		!schema.ClaimsByNode.Has(tx, n.ID)
}

func reapableJob(tx Reader, j *structs.Job) bool {
	return j.Status == structs.JobDead &&
		!schema.AllocsByJob.Has(tx, j.Namespace, j.ID) &&
		!schema.EvalsByJob.Has(tx, j.Namespace, j.ID) &&
		!jobvolumes.Keep(tx, j)
}
