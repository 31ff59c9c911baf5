package state

import (
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// Reap deletes rows that are no longer used. The request was made with an older state, so Reap checks each
// row again. It keeps rows that are used, or have changed since: their ages count anew.
func Reap(tx *WriteTx, p *structs.ReapRequest) error {
	for _, id := range p.Allocs {
		a := Alloc(tx, id)
		if a != nil && !changedSince(p, a.ModifyIndex) && reapableAlloc(tx, a, p) {
			reapAlloc(tx, a)
		}
	}

	for _, id := range p.Evals {
		e := Eval(tx, id)

		// An ended evaluation does not change any more. It stays while an allocation names it, as one does
		// that was kept above.
		if e != nil && e.Terminal() && (p.Index == 0 || !schema.EvalAllocs.Has(tx, e.ID)) {
			schema.Evals.Delete(tx, e)
			refreshJobStatus(tx, structs.JobKey{Namespace: e.Namespace, ID: e.JobID}, e.ModifyTime)
		}
	}

	for _, k := range p.Jobs {
		j := Job(tx, k.Namespace, k.ID)
		if j != nil && !changedSince(p, j.JobModifyIndex) && reapableJob(tx, j) {
			deleteJob(tx, j, p.Now)
		}
	}

	for _, id := range p.Nodes {
		n := Node(tx, id)
		if n != nil && !changedSince(p, n.ModifyIndex) && reapableNode(tx, n) {
			deleteNode(tx, n, p.Now)
		}
	}

	return nil
}

// changedSince reports whether a row with an index has changed since the request was made. A request without
// an index comes from an older version.
func changedSince(p *structs.ReapRequest, index uint64) bool {
	return p.Index != 0 && index > p.Index
}

// reapableAlloc reports whether nothing needs the row of an allocation. A claim does until the node has
// released the volume (csi.CheckClaims), and an active deployment does of allocations that it counts: all of
// them for an older version.
func reapableAlloc(tx Reader, a *structs.Allocation, p *structs.ReapRequest) bool {
	deployed := IsDeployed(tx, a) || p.Index == 0 && isCounted(tx, a)
	return a.ClientTerminal() && !deployed && !schema.ClaimsByNode.Has(tx, a.NodeID, a.ID)
}

func reapAlloc(tx *WriteTx, a *structs.Allocation) {
	uncountReaped(tx, a)
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
	refreshJobStatus(tx, structs.JobKey{Namespace: a.Namespace, ID: a.JobID}, a.ModifyTime)
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
		!csi.KeepsJob(tx, j)
}
