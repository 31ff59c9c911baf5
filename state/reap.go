package state

import "berth/structs"

// Reap deletes what is of no more use. Whoever asked looked at an older state: each row is looked at once
// more, and left when it is in use after all.
func Reap(tx *Write, p *structs.ReapRequest) error {
	for _, id := range p.Allocs {
		if a := Alloc(tx.Read, id); a != nil && a.ClientTerminal() && !claimsByNode.has(tx.Read, a.NodeID, id) {
			reapAlloc(tx, a)
		}
	}
	for _, id := range p.Evals {
		if e := Eval(tx.Read, id); e != nil && e.Terminal() {
			evals.delete(tx, e)
			refreshJobStatus(tx, e.Namespace, e.JobID)
		}
	}
	for _, k := range p.Jobs {
		if j := Job(tx.Read, k.Namespace, k.ID); j != nil && reapableJob(tx.Read, j) {
			jobs.delete(tx, j)
			pruneVersions(tx, j.Namespace, j.ID)
		}
	}
	for _, id := range p.Nodes {
		n := Node(tx.Read, id)
		if n != nil && n.Status == structs.NodeDown && !n.Unaccounted && !allocsByNode.has(tx.Read, id) && !claimsByNode.has(tx.Read, id) {
			forgetNode(tx, n, p.Now)
		}
	}
	return nil
}

func reapAlloc(tx *Write, a *structs.Allocation) {
	allocs.delete(tx, a)
	unreferPlugins(tx, a)
	if e := Eval(tx.Read, a.EvalID); e != nil && e.Placed && !allocsByEval.has(tx.Read, e.ID) {
		e = e.Copy()
		e.Placed = false
		evals.put(tx, e)
	}
	if Job(tx.Read, a.Namespace, a.JobID) == nil {
		pruneVersions(tx, a.Namespace, a.JobID)
	}
	refreshJobStatus(tx, a.Namespace, a.JobID)
}

func reapableJob(tx *Read, j *structs.Job) bool {
	return j.Status == structs.JobDead && !allocsByJob.has(tx, j.Namespace, j.ID) && !evalsByJob.has(tx, j.Namespace, j.ID)
}
