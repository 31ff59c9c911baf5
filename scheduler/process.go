package scheduler

import (
	"iter"
	"maps"
	"slices"
	"time"

	"berth/state"
	"berth/structs"
)

// Process works out the plan for an evaluation. The plan's evaluation is complete, or blocked again when
// it is one that had been blocked; what could not be placed is in its FailedTGAllocs, and a blocked
// evaluation beside it waits for room.
func Process(tx *state.ReadTx, eval *structs.Evaluation, now time.Time) (*structs.Plan, error) {
	return process(tx, eval, now, enough)
}

// process is Process with samples of a size.
func process(tx *state.ReadTx, eval *structs.Evaluation, now time.Time, enough int) (*structs.Plan, error) {
	if eval == nil || eval.ID == "" || eval.JobID == "" {
		return nil, structs.Errorf(structs.KindInvalid, "an evaluation needs an ID and a job")
	}
	p := &planner{tx: tx, eval: eval, ns: structs.NamespaceOr(eval.Namespace), now: now, enough: enough, plan: &structs.Plan{},
		stopped: map[string]bool{}, short: map[string]bool{}, views: map[string]*view{}, intended: map[string][]*structs.CSIClaim{}}
	p.job = state.Job(tx, p.ns, eval.JobID)
	switch {
	case p.job == nil || p.job.Stop:
		p.stopAll()
	case p.job.PerNode():
		p.reconcilePerNode()
	default:
		p.reconcile()
	}
	p.placeAll()
	p.followUp()
	p.finish()
	return p.plan, nil
}

// planner is one evaluation being worked out.
type planner struct {
	tx   *state.ReadTx
	eval *structs.Evaluation
	ns   string
	job  *structs.Job // nil when it is gone
	now  time.Time
	plan *structs.Plan

	enough int // nodes that would take an allocation

	scope   string          // of a job per node: the ID of the one node that is looked at; "" for all
	fleet   []*structs.Node // all nodes, by ID; nil until somebody must look at all
	start   string          // where in the fleet to begin; see origin
	views   map[string]*view
	groups  []*groupPlan
	wants   []*want
	delayed []waiting
	stopped map[string]bool // allocations that the plan stops
	nowhere bool            // a job per node runs on none
	moves   int             // allocations that the plan stops and places anew
	placed  int             // about how many bytes its allocations have
	more    bool            // it leaves some to the next plan
	short   map[string]bool // nodes on which one finds no room

	wakes    int                            // volumes that would make room on nodes, as far as they are named
	crowded  bool                           // there are too many to name all
	intended map[string][]*structs.CSIClaim // claims of what this plan places, by volume
}

// stopAll ends what is left of a job that is stopped or gone.
func (p *planner) stopAll() {
	for a := range state.AllocsByJob(p.tx, p.ns, p.eval.JobID) {
		p.end(a, "job is stopped")
	}
}

// end stops an allocation, or gives it up for lost with its node.
func (p *planner) end(a *structs.Allocation, why string) {
	switch {
	case a.ClientTerminal():
	case p.lost(a.NodeID):
		p.stop(a, "node is down", structs.AllocLost)
	case !a.ServerTerminal():
		p.stop(a, why, "")
	}
}

// live are the job's allocations that the servers want to run, and on the way it gives up for lost those
// that were being stopped when their node went down.
func (p *planner) live() []*structs.Allocation {
	var out []*structs.Allocation
	for a := range p.ofJob() {
		if !a.ServerTerminal() {
			out = append(out, a)
		} else if !a.ClientTerminal() && p.lost(a.NodeID) {
			p.stop(a, "node is down", structs.AllocLost)
		}
	}
	return out
}

// ofJob yields the job's allocations: all, or those on the one node that is looked at.
func (p *planner) ofJob() iter.Seq[*structs.Allocation] {
	if p.scope == "" {
		return state.AllocsByJob(p.tx, p.ns, p.eval.JobID)
	}
	return func(yield func(*structs.Allocation) bool) {
		for a := range state.AllocsByNode(p.tx, p.scope) {
			if a.JobID == p.eval.JobID && a.Namespace == p.ns && !yield(a) {
				return
			}
		}
	}
}

// all are the nodes, by ID. It is for who must look at every one.
func (p *planner) all() []*structs.Node {
	if p.fleet == nil {
		p.fleet = slices.Collect(state.Nodes(p.tx))
	}
	return p.fleet
}

func (p *planner) node(id string) *structs.Node { return state.Node(p.tx, id) }

// reasonsInAll is about how many reasons an evaluation names for all its groups together: with those of a
// job with many groups it would be too large a log entry.
const reasonsInAll = 2000

// finish writes down what became of the evaluation, and what it now waits for.
func (p *planner) finish() {
	e := p.eval.Copy()
	e.Namespace, e.Status, e.StatusDescription = p.ns, structs.EvalComplete, ""
	e.Again, e.BlockedEval, e.BlockedOn, e.Shape = "", "", nil, ""
	e.FailedTGAllocs, e.QueuedAllocations = nil, map[string]int{}
	keys := p.roomKeys()
	most := min(structs.MaxReasons, max(1, reasonsInAll/max(1, len(p.groups))))
	for _, g := range p.groups {
		e.QueuedAllocations[g.group.Name] = g.queued
		if g.failed == nil {
			continue
		}
		if e.FailedTGAllocs == nil {
			e.FailedTGAllocs = map[string]*structs.AllocMetric{}
		}
		e.FailedTGAllocs[g.group.Name] = g.failed.finished(most)
		maps.Copy(keys, g.failed.keys)
	}
	p.addWaiting(e)
	p.plan.Eval = e
	if p.job != nil {
		p.plan.JobModifyIndex = p.job.JobModifyIndex
	}
	if p.more {
		e.Status, e.StatusDescription = structs.EvalPending, "more allocations follow"
		e.Again, e.FailedTGAllocs = structs.EvalMore, nil
	}
	if e.FailedTGAllocs != nil {
		keys = p.boundKeys(keys)
		p.block(e, slices.Sorted(maps.Keys(keys)))
		p.lookAgain()
	}
	e.SnapshotIndex = p.snapshotIndex()
	if p.plan.Blocked != nil {
		p.plan.Blocked.SnapshotIndex = e.SnapshotIndex
	}
}

// lookAgain makes an evaluation for later, if there is none, where not all that would make room could be named.
func (p *planner) lookAgain() {
	if !p.crowded {
		return
	}
	for e := range state.LaterEvalsByJob(p.tx, p.ns, p.job.ID) {
		if e.ID != p.eval.ID && (e.NodeID == "" || e.NodeID == p.scope) && e.WaitUntil <= p.now.Add(aWhile).UnixNano() {
			return
		}
	}
	p.plan.Followups = append(p.plan.Followups, p.later(p.now.Add(aWhile).UnixNano()))
}

// boundKeys keeps to so many volumes that an evaluation waits for. Where there are more, it looks again after a while.
func (p *planner) boundKeys(keys map[string]bool) map[string]bool {
	if len(keys) <= mostWakes {
		return keys
	}
	p.crowded = true
	kept := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if len(kept) < mostWakes || !structs.WakesVolume(k) {
			kept[k] = true
		}
	}
	return kept
}

// roomKeys name what could make room: anywhere; of a job per node, which uses no volumes, on the nodes that have none.
func (p *planner) roomKeys() map[string]bool {
	volumes := slices.ContainsFunc(p.groups, func(g *groupPlan) bool { return len(g.group.Volumes) > 0 })
	if p.job == nil || !p.job.PerNode() || volumes || len(p.short) > structs.ManyNodes || len(p.short) == 0 && !p.nowhere {
		return map[string]bool{structs.WakeCapacity: true}
	}
	keys := map[string]bool{}
	if p.nowhere {
		keys[structs.WakeNodes] = true
	}
	for id := range p.short {
		keys[structs.WakeNode(id)] = true
	}
	return keys
}

// addWaiting counts in what the job waits for on nodes that were not looked at.
func (p *planner) addWaiting(e *structs.Evaluation) {
	if p.scope == "" {
		return
	}
	if b := state.BlockedEval(p.tx, p.ns, e.JobID); b != nil {
		for group, n := range b.QueuedAllocations {
			e.QueuedAllocations[group] = max(n, e.QueuedAllocations[group])
		}
	}
}

// block makes an evaluation wait for the keys: the very one, if it is one that had been waiting, else the
// job's that waits already, else a new one.
func (p *planner) block(e *structs.Evaluation, keys []string) {
	if e.TriggeredBy == structs.TriggerQueuedAllocs {
		e.Status, e.BlockedOn, e.Shape, e.JobModifyIndex = structs.EvalBlocked, keys, p.shape(), p.job.JobModifyIndex
		e.StatusDescription = "waiting for room"
		return
	}
	b := &structs.Evaluation{ID: structs.NewID(), PreviousEval: e.ID, CreateTime: p.now.UnixNano()}
	if other := state.BlockedEval(p.tx, p.ns, e.JobID); other != nil {
		b = other.Copy()
	}
	b.Again, b.Shape = "", p.shape()
	b.Namespace, b.Priority, b.Type, b.JobID = p.ns, p.job.Priority, p.job.Type, e.JobID
	b.JobModifyIndex, b.TriggeredBy = p.job.JobModifyIndex, structs.TriggerQueuedAllocs
	b.Status, b.StatusDescription, b.BlockedOn = structs.EvalBlocked, "waiting for room", keys
	b.FailedTGAllocs, b.QueuedAllocations = maps.Clone(e.FailedTGAllocs), maps.Clone(e.QueuedAllocations)
	b.ModifyTime = p.now.UnixNano()
	e.BlockedEval = b.ID
	p.plan.Blocked = b
}

// snapshotIndex is the index that wakes are compared with: it must not be below that of any wake that the
// snapshot has seen, so every table whose changes wake is among those read.
func (p *planner) snapshotIndex() uint64 {
	state.Node(p.tx, "")
	state.Volume(p.tx, "", "")
	state.Claim(p.tx, "", "", "")
	state.Attachment(p.tx, "", "", "")
	state.Instance(p.tx, "", structs.CSIKindNode, "")
	state.Alloc(p.tx, "")
	return p.tx.Newest()
}
