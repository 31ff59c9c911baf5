package control

import (
	"context"
	"slices"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// GCThresholds are the ages below which ended rows are kept for operators. Zero deletes at once.
type GCThresholds struct {
	Eval time.Duration // of evaluations, and of allocations that have a successor or whose job has ended
	Job  time.Duration // since a job that has ended was submitted
	Node time.Duration // since a node went down
}

// Collection is one run of the garbage collection. It deletes rows that ended longer ago than the thresholds.
// It keeps a row that is still needed: an allocation that holds a claim, one whose failure the scheduler has
// yet to replace, one that shows that a batch job is complete. State checks every row again.
type Collection struct {
	Keep GCThresholds
	Now  time.Time
}

// gcBatch is the most rows that one log entry deletes.
const gcBatch = 512

// Run lists the garbage and proposes its deletion, one entry after another. It returns the index of the last.
func (c Collection) Run(ctx context.Context, tx *state.ReadTx, p fsm.Proposer) (index uint64, err error) {
	for _, r := range c.list(tx) {
		r.Now = c.Now.UnixNano()
		index, err = fsm.Propose(ctx, p, fsm.Reap, r)
		if err != nil {
			return index, err
		}
	}
	return index, nil
}

// list returns the garbage as log entries. It reads only rows that ended before the thresholds.
func (c Collection) list(tx *state.ReadTx) []*structs.ReapRequest {
	g := garbage{tx: tx, allocs: map[string]bool{}, evals: map[string]bool{},
		evalsBefore: c.Now.Add(-c.Keep.Eval).UnixNano(),
	}
	jobsBefore := c.Now.Add(-c.Keep.Job).UnixNano()
	nodesBefore := c.Now.Add(-c.Keep.Node).Unix()
	for job := range state.EndedJobs(tx) {
		if job.SubmitTime > jobsBefore {
			break
		}
		g.job(job)
	}
	for a := range state.EndedAllocs(tx) {
		if a.ModifyTime > g.evalsBefore {
			break
		}
		g.alloc(a)
	}
	for _, id := range g.placed {
		if e := state.Eval(tx, id); e != nil {
			g.eval(e)
		}
	}
	for e := range state.EndedEvals(tx) {
		if e.ModifyTime > g.evalsBefore {
			break
		}
		g.eval(e)
	}
	for n := range state.DownNodes(tx) {
		if n.StatusUpdatedAt > nodesBefore {
			break
		}
		g.node(n)
	}
	return g.entries
}

type garbage struct {
	tx            *state.ReadTx
	evalsBefore   int64
	allocs, evals map[string]bool // those already listed
	placed        []string        // evaluations that have placed some of those
	entries       []*structs.ReapRequest
	rows          int // in the last entry
}

// entry is the log entry that the next row goes into. Entries are in the order in which they must be
// applied: an evaluation goes after its allocations.
func (g *garbage) entry() *structs.ReapRequest {
	if len(g.entries) == 0 || g.rows >= gcBatch {
		g.entries = append(g.entries, &structs.ReapRequest{})
		g.rows = 0
	}
	g.rows++
	return g.entries[len(g.entries)-1]
}

func (g *garbage) drop(a *structs.Allocation) {
	if !g.allocs[a.ID] {
		g.allocs[a.ID] = true
		e := g.entry()
		e.Allocs = append(e.Allocs, a.ID)
		if a.EvalID != "" {
			g.placed = append(g.placed, a.EvalID)
		}
	}
}

// job takes a job that has ended with all its allocations and evaluations, or leaves it.
func (g *garbage) job(job *structs.Job) {
	allocs := slices.Collect(state.AllocsByJob(g.tx, job.Namespace, job.ID))
	evals := slices.Collect(state.EvalsByJob(g.tx, job.Namespace, job.ID))
	inUse := func(a *structs.Allocation) bool { return !a.ClientTerminal() || g.claims(a) }
	open := func(e *structs.Evaluation) bool { return !e.Terminal() }
	if slices.ContainsFunc(allocs, inUse) || slices.ContainsFunc(evals, open) {
		return
	}
	for _, a := range allocs {
		g.drop(a)
	}
	for _, e := range evals {
		g.dropEval(e)
	}
	r := g.entry()
	r.Jobs = append(r.Jobs, structs.JobKey{Namespace: job.Namespace, ID: job.ID})
}

func (g *garbage) alloc(a *structs.Allocation) {
	if g.claims(a) {
		return
	}
	job := state.Job(g.tx, a.Namespace, a.JobID)
	current := job != nil && !job.Stop && a.CreateIndex >= job.CreateIndex
	if current && (job.Finite() || !a.ServerTerminal() && a.NextAllocation == "") {
		return
	}
	g.drop(a)
}

func (g *garbage) claims(a *structs.Allocation) bool {
	for range state.ClaimsByAlloc(g.tx, a.ID) {
		return true
	}
	return false
}

func (g *garbage) eval(e *structs.Evaluation) {
	if !e.Terminal() || e.ModifyTime > g.evalsBefore || g.evals[e.ID] {
		return
	}
	for a := range state.AllocsByEval(g.tx, e.ID) {
		if !g.allocs[a.ID] {
			return
		}
	}
	g.dropEval(e)
}

func (g *garbage) dropEval(e *structs.Evaluation) {
	g.evals[e.ID] = true
	r := g.entry()
	r.Evals = append(r.Evals, e.ID)
}

func (g *garbage) node(n *structs.Node) {
	for a := range state.AllocsByNode(g.tx, n.ID) {
		if !g.allocs[a.ID] {
			return
		}
	}
	for range state.ClaimsByNode(g.tx, n.ID) {
		return
	}
	for range state.AttachmentsByNode(g.tx, n.ID) {
		return
	}
	r := g.entry()
	r.Nodes = append(r.Nodes, n.ID)
}
