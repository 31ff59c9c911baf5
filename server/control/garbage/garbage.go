// Package garbage lists the rows that ended long ago, or of which there are too many, and proposes their
// deletion. It keeps each row that a claim, the scheduler or a deployment still needs.
//
// Every age counts from an end, never from a beginning: what has run for a month is as young as its end.
//
// It decides on a snapshot, and rows change until the entry is applied. The entry checks each row again and
// leaves out what is needed by then, and what has changed since the snapshot. A row that is kept here for
// nothing goes with a later run.
package garbage

import (
	"context"
	"iter"
	"slices"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/structs"
)

// Thresholds are the ages below which ended rows are kept for operators. Zero deletes at once.
type Thresholds struct {
	Eval time.Duration // of evaluations, and of allocations that have a successor or whose job has ended
	Job  time.Duration // of jobs that have ended, counted from their end: see state.JobEnd
	Node time.Duration // since a node went down
	Rows int           // the most ended rows of a kind that stay, the newest ones; 0: any number
}

// Collection is one run of the garbage collection. It deletes rows that ended longer ago than the thresholds,
// and the oldest ones of a kind that has too many.
// It keeps a row that is still needed: an allocation that holds a claim, one whose failure the scheduler has
// yet to replace, one that shows that a batch job is complete. State checks every row again.
type Collection struct {
	Keep Thresholds
	Now  time.Time // of the cluster: see package clustertime
}

// gcBatch is the most rows that one log entry deletes.
const gcBatch = 512

// Run lists the garbage and proposes its deletion, one entry after another. It returns the index of the last.
func (c Collection) Run(
	ctx context.Context,
	tx *state.ReadTx,
	p fsm.Proposer,
) (index uint64, err error) {
	for _, r := range c.listGarbage(tx) {
		r.Index = tx.Applied()
		r.Now = c.Now.UnixNano()
		index, err = fsm.Propose(ctx, p, fsm.Reap, r)
		if err != nil {
			return index, err
		}
	}

	return index, nil
}

// listGarbage returns the garbage as log entries. Apart from the count of the ended rows, it reads only rows
// that are beyond a threshold.
func (c Collection) listGarbage(tx *state.ReadTx) []*structs.ReapRequest {
	g := garbage{
		tx:     tx,
		allocs: map[string]bool{},
		evals:  map[string]bool{},
		ofEval: map[string]int{},
		gone:   map[string]bool{},
	}

	gone := c.listGone(&g)
	c.addEndedJobs(&g)
	c.addEndedAllocs(&g)
	c.addEndedEvals(&g)

	// Nodes come last: an allocation that is listed no longer holds its node.
	for _, n := range gone {
		g.addNode(n)
	}

	return g.entries
}

// listGone returns the nodes that went down before the threshold.
func (c Collection) listGone(g *garbage) (gone []*structs.Node) {
	// The nodes are in the order of their loss, so the first one that is young ends the search.
	for n := range state.DownNodes(g.tx) {
		if n.StatusUpdatedAt > c.Now.Add(-c.Keep.Node).Unix() {
			break
		}

		if g.isOld(n.StatusUpdatedAt*int64(time.Second), c.Now.Add(-c.Keep.Node).UnixNano()) {
			gone = append(gone, n)
			g.gone[n.ID] = true
		}
	}

	return gone
}

// addEndedJobs adds the jobs that are old or surplus. They are in the order in which they became dead, so the
// first one that is young ends the search. One before it may have ended later than its row says: see
// state.JobEnd.
func (c Collection) addEndedJobs(g *garbage) {
	before := c.Now.Add(-c.Keep.Job).UnixNano()
	surplus := surplusOf(state.EndedJobs(g.tx), c.Keep.Rows)
	for job := range state.EndedJobs(g.tx) {
		if max(job.SubmitTime, job.EndTime) > before && surplus <= 0 {
			break
		}

		surplus--
		if surplus >= 0 || g.isOld(state.JobEnd(g.tx, job), before) {
			g.addJob(job)
		}
	}
}

// addEndedAllocs adds the allocations that are old or surplus. They are in the order of their ends, so the
// first one that stays ends the search.
func (c Collection) addEndedAllocs(g *garbage) {
	before := c.Now.Add(-c.Keep.Eval).UnixNano()
	surplus := surplusOf(state.EndedAllocs(g.tx), c.Keep.Rows)
	for a := range state.EndedAllocs(g.tx) {
		if a.ModifyTime > before && surplus <= 0 {
			break
		}

		surplus--
		if surplus >= 0 || g.isOld(a.ModifyTime, before) {
			g.addAlloc(a)
		}
	}
}

// addEndedEvals comes after the allocations: an evaluation's go before it.
func (c Collection) addEndedEvals(g *garbage) {
	// An evaluation may be younger than the threshold, and needs its allocations no more: it goes with them.
	for _, id := range g.placed {
		if e := state.Eval(g.tx, id); e != nil {
			g.addEval(e)
		}
	}

	before := c.Now.Add(-c.Keep.Eval).UnixNano()
	surplus := surplusOf(state.EndedEvals(g.tx), c.Keep.Rows)
	for e := range state.EndedEvals(g.tx) {
		if e.ModifyTime > before && surplus <= 0 {
			break
		}

		surplus--
		if surplus >= 0 || g.isOld(e.ModifyTime, before) {
			g.addEval(e)
		}
	}
}

// surplusOf returns the number of rows beyond most. It is 0 or less if there are fewer, or for a most of 0.
func surplusOf[T any](ended iter.Seq[*T], most int) (surplus int) {
	if most == 0 {
		return 0
	}
	for range ended {
		surplus++
	}
	return surplus - most
}

// garbage is the list of rows to delete.
type garbage struct {
	tx            *state.ReadTx
	allocs, evals map[string]bool // already listed
	placed        []string        // evaluations that have placed some of allocs
	ofEval        map[string]int  // the number of allocs that the evaluation has placed
	gone          map[string]bool // nodes that went down before the threshold
	entries       []*structs.ReapRequest
	rows          int // in the last entry
}

// isOld reports whether a row has ended before a threshold, also if it has ended while the clocks were ahead.
func (g *garbage) isOld(end, before int64) bool {
	return clustertime.Corrected(clustertime.Of(g.tx), end) <= before
}

// entryForRow returns the log entry that deletes the next row. Entries are in the order in which they must be
// applied: an evaluation goes after its allocations.
func (g *garbage) entryForRow() *structs.ReapRequest {
	if len(g.entries) == 0 || g.rows >= gcBatch {
		g.entries = append(g.entries, &structs.ReapRequest{})
		g.rows = 0
	}
	g.rows++
	return g.entries[len(g.entries)-1]
}

// deleteAlloc lists an allocation once, and counts it for the evaluation that has placed it.
func (g *garbage) deleteAlloc(a *structs.Allocation) {
	if g.allocs[a.ID] {
		return
	}

	g.allocs[a.ID] = true
	r := g.entryForRow()
	r.Allocs = append(r.Allocs, a.ID)
	if a.EvalID != "" {
		g.placed = append(g.placed, a.EvalID)
		g.ofEval[a.EvalID]++
	}
}

// addJob adds a job that has ended, with all its allocations and evaluations, if none of them is needed.
func (g *garbage) addJob(job *structs.Job) {
	allocs := slices.Collect(state.AllocsByJob(g.tx, job.Namespace, job.ID))
	evals := slices.Collect(state.EvalsByJob(g.tx, job.Namespace, job.ID))
	inUse := func(a *structs.Allocation) bool {
		return !a.ClientTerminal() || g.hasClaims(a)
	}

	open := func(e *structs.Evaluation) bool {
		return !e.Terminal()
	}

	if slices.ContainsFunc(allocs, inUse) ||
		slices.ContainsFunc(evals, open) {
		return
	}

	for _, a := range allocs {
		g.deleteAlloc(a)
	}

	for _, e := range evals {
		g.deleteEval(e)
	}

	r := g.entryForRow()
	r.Jobs = append(r.Jobs, structs.JobKey{
		Namespace: job.Namespace,
		ID:        job.ID,
	})
}

// addAlloc adds an allocation that has ended, if neither the scheduler nor a successor on its node needs it.
func (g *garbage) addAlloc(a *structs.Allocation) {
	if g.hasClaims(a) || state.IsDeployed(g.tx, a) {
		return
	}

	job := state.Job(g.tx, a.Namespace, a.JobID)

	// A job of the same name that was registered again later has nothing to do with the allocation.
	current := job != nil && !job.Stop && a.CreateIndex >= job.CreateIndex

	// The scheduler replaces it yet, or its reschedule policy forbids it: its row is what tells that.
	unreplaced := !a.ServerTerminal() && a.NextAllocation == ""
	waitsForNode := current && job.PerNode() && g.gone[a.NodeID] // its data or successor does
	if current && (unreplaced && !waitsForNode || job.Finite() || g.isReplaceable(job, a)) {
		return
	}

	if _, awaited := state.DataAwaited(g.tx, a); awaited && !waitsForNode {
		return
	}

	g.deleteAlloc(a)
}

// isReplaceable reports whether the scheduler may yet replace an allocation that was moved or lost. In a
// group that a deployment holds, the successor has the version of the allocation, which only its row tells.
func (g *garbage) isReplaceable(job *structs.Job, a *structs.Allocation) bool {
	d := state.LatestDeployment(g.tx, a.Namespace, a.JobID)
	return d != nil && d.JobVersion == job.Version && d.Status != structs.DeploymentSuccessful &&
		a.NextAllocation == "" && !a.DeploymentStatus.IsCanary() &&
		job.Group(a.TaskGroup) != nil && a.Index() < job.Group(a.TaskGroup).Count
}

func (g *garbage) hasClaims(a *structs.Allocation) bool {
	for range csi.ClaimsByAlloc(g.tx, a.ID) {
		return true
	}
	return false
}

// addEval adds an evaluation that has ended, if all allocations that it has placed are listed before it.
func (g *garbage) addEval(e *structs.Evaluation) {
	if g.evals[e.ID] || !e.Terminal() {
		return
	}
	if state.AllocsOfEval(g.tx, e.ID) > g.ofEval[e.ID] {
		return
	}
	g.deleteEval(e)
}

func (g *garbage) deleteEval(e *structs.Evaluation) {
	g.evals[e.ID] = true
	r := g.entryForRow()
	r.Evals = append(r.Evals, e.ID)
}

// addNode adds a node that holds nothing. A claim keeps the row of its allocation.
func (g *garbage) addNode(n *structs.Node) {
	for a := range state.AllocsByNode(g.tx, n.ID) {
		if !g.allocs[a.ID] {
			return
		}
	}

	for range csi.AttachmentsByNode(g.tx, n.ID) {
		return
	}

	r := g.entryForRow()
	r.Nodes = append(r.Nodes, n.ID)
}
