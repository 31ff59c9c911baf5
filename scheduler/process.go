package scheduler

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"berth/internal/level"
	"berth/state"
	"berth/structs"
)

// Process computes the plan for an evaluation. The evaluation in the plan is complete, or blocked again if it
// was a blocked one. Its FailedTGAllocs holds the groups without a place, and another blocked evaluation
// waits for capacity.
func Process(tx *state.ReadTx, eval *structs.Evaluation, now time.Time) (*structs.Plan, error) {
	return process(tx, eval, now, options{enough: enough})
}

// options are the inputs of process besides the state.
type options struct {
	enough int                                 // feasible nodes of a sample
	above  func(v any, level int) []level.Part // of the fields that agents do not know; nil: level.Above
	anew   bool                                // repeats no trial of a node: tests compare both
}

// process is Process with options.
func process(tx *state.ReadTx, eval *structs.Evaluation, now time.Time, o options) (*structs.Plan, error) {
	p, err := newPlanner(tx, eval, now, o)
	if err != nil {
		return nil, err
	}
	p.decide()
	p.execute()
	p.releaseViews()
	return p.plan, nil
}

func newPlanner(tx *state.ReadTx, eval *structs.Evaluation, now time.Time, o options) (*planner, error) {
	if eval == nil ||
		eval.ID == "" ||
		eval.JobID == "" {
		return nil, structs.Invalidf("an evaluation needs an ID and a job")
	}
	p := &planner{placer: newPlacer(newOutlook(tx, eval, now), o)}
	if o.above != nil {
		p.fieldsAbove = o.above
	}
	return p, nil
}

// decide compares the job with its allocations.
func (p *planner) decide() {
	switch {
	case p.job == nil || p.job.Stop:
		for a := range state.AllocsByJob(p, p.ns, p.eval.JobID) {
			p.endAlloc(a, "job is stopped")
		}
	case p.job.StartsOthers(): // its children have evaluations of their own
	case p.job.PerNode():
		p.reconcilePerNode()
	default:
		p.reconcile()
	}
}

// execute looks for nodes and completes the plan.
func (p *planner) execute() {
	p.placeAll()
	p.addFollowup()
	p.addNextBatch()
	p.finishEval()
	p.splitParts()
}

// planner computes the plan of one evaluation: it decides on the job's allocations.
type planner struct {
	*placer

	replaced  []*structs.Allocation // of the job: see isReplaced
	delayed   []classified          // ended allocations that are replaced later
	nowhere   bool                  // a per-node job runs on no node
	moves     int                   // allocations that the plan stops and places again
	nextBatch string                // ID of the evaluation that continues an update, or ""
}

// endAlloc stops an allocation, or marks it lost if its node is down.
func (p *planner) endAlloc(a *structs.Allocation, why string) {
	switch {
	case a.ClientTerminal():
	case p.nodeOf(a).Lost():
		p.stopAlloc(a, structs.StopNodeDown, state.NodeIsDown)
	case !a.ServerTerminal():
		p.stopAlloc(a, "", why)
	}
}

// liveAllocs returns the job's allocations that the servers want to run, and the lost ones that have done
// their work. It marks allocations as lost that were stopping when their node went down.
func (p *planner) liveAllocs() []*structs.Allocation {
	var out []*structs.Allocation
	for a := range p.jobAllocs() {
		switch {
		case !a.ServerTerminal(), state.DoneWhenLost(p, a):
			out = append(out, a)
		case !a.ClientTerminal() && p.nodeOf(a).Lost():
			p.stopAlloc(a, structs.StopNodeDown, state.NodeIsDown)
		}
		if isReplaced(a) {
			p.replaced = append(p.replaced, a)
		}
	}
	p.live = out
	p.knowsOwn = p.scope == ""
	return out
}

// reasonsInAll bounds the reasons that an evaluation names for all its groups together, about: a job with
// many groups would make the log entry too large.
const reasonsInAll = 2000

// finishEval completes or blocks the evaluation.
func (p *planner) finishEval() {
	e := p.eval.Copy()
	e.Namespace = p.ns
	e.Status = structs.EvalComplete
	e.StatusDescription = ""
	e.Again = ""
	e.BlockedEval = ""
	e.NextEval = p.nextBatch
	if p.deployment != nil {
		e.DeploymentID = p.deployment.ID // clients of the dialect follow it from here
	}

	e.BlockedOn = nil
	e.Shape = ""
	e.FailedTGAllocs = nil
	e.QueuedAllocations = map[string]int{}
	keys := p.capacityKeys()
	share := reasonsInAll / max(1, len(p.groups))
	most := min(structs.MaxReasons, max(1, share))
	for _, g := range p.groups {
		e.QueuedAllocations[g.spec.group.Name] += g.queued
		if g.failed == nil {
			continue
		}

		if e.FailedTGAllocs == nil {
			e.FailedTGAllocs = map[string]*structs.AllocMetric{}
		}

		e.FailedTGAllocs[g.spec.group.Name] = g.failed.ToMetric(most)
		maps.Copy(keys, g.failed.Keys)
	}

	p.addWaiting(e)
	p.plan.Eval = e
	if p.job != nil {
		p.plan.JobModifyIndex = p.job.JobModifyIndex
	}

	if p.more {
		p.plan.Eval = moreFollow(e)
		e = p.plan.Eval
	}

	if e.FailedTGAllocs != nil {
		keys = p.boundKeys(keys)
		p.blockEval(e, slices.Sorted(maps.Keys(keys)))
		p.addRetryEval()
	}

	e.SnapshotIndex = snapshotIndex(p.ReadTx)
	if p.plan.Blocked != nil {
		p.plan.Blocked.SnapshotIndex = e.SnapshotIndex
	}
}

// addRetryEval adds an evaluation for later, if there is none, when no key tells of a change after which this
// one may find capacity: the keys were too many to name, or a plugin leaves its node.
func (p *planner) addRetryEval() {
	if !p.tooManyKeys && !p.waits {
		return
	}

	due := p.now.Add(retryDelay).UnixNano()
	if p.waits {
		due += jitter(p.ns, p.eval.JobID).Nanoseconds()
	}

	for e := range state.LaterEvalsByJob(p, p.ns, p.job.ID) {
		covers := e.NodeID == "" || e.NodeID == p.scope
		if covers &&
			e.ID != p.eval.ID &&
			e.WaitUntil <= due {
			return
		}
	}

	e := p.evalAt(due)
	if p.waits {
		e.NodeID = "" // one for all nodes of a per-node job
	}

	p.plan.Followups = append(p.plan.Followups, e)
}

// jitter returns a time below 17 s, another one for most jobs.
func jitter(ns, job string) time.Duration {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, ns, job)
	return time.Duration(h.Sum32()%(1<<14)) * time.Millisecond
}

// boundKeys keeps at most maxKeys unblock keys of volumes. If there are more, the evaluation is retried
// later.
func (p *planner) boundKeys(keys map[string]bool) map[string]bool {
	if len(keys) <= maxKeys {
		return keys
	}
	p.tooManyKeys = true
	kept := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if len(kept) < maxKeys || !structs.WakesVolume(k) {
			kept[k] = true
		}
	}
	return kept
}

// capacityKeys returns the unblock keys of freed capacity: on any node, or for a per-node job without volumes
// on the nodes without capacity.
func (p *planner) capacityKeys() map[string]bool {
	volumes := slices.ContainsFunc(p.groups, func(g *groupPlan) bool {
		return len(g.spec.group.Volumes) > 0
	})
	exhausted := len(p.exhaustedNodes)
	if p.job == nil ||
		!p.job.PerNode() ||
		p.job.LimitsProperty() ||
		volumes ||
		exhausted > structs.ManyNodes ||
		exhausted == 0 && !p.nowhere {
		return map[string]bool{structs.WakeCapacity: true}
	}

	keys := map[string]bool{}
	if p.nowhere {
		keys[structs.WakeNodes] = true
	}

	for id := range p.exhaustedNodes {
		keys[structs.WakeNode(id)] = true
	}

	return keys
}

// addWaiting adds the counts of nodes outside the scope for which the job waits.
func (p *planner) addWaiting(e *structs.Evaluation) {
	if p.scope == "" {
		return
	}
	b := state.BlockedEval(p, p.ns, e.JobID)
	if b == nil {
		return
	}
	queued := e.QueuedAllocations
	for group, n := range b.QueuedAllocations {
		queued[group] = max(n, queued[group])
	}
}

// blockEval blocks an evaluation on the keys: the evaluation itself if it was blocked before, else the job's
// blocked one, else a new one.
func (p *planner) blockEval(e *structs.Evaluation, keys []string) {
	if e.TriggeredBy == structs.TriggerQueuedAllocs {
		p.setBlocked(e, keys)
		return
	}

	b := &structs.Evaluation{
		ID:           structs.NewID(),
		PreviousEval: e.ID,
		CreateTime:   p.now.UnixNano(),
	}

	other := state.BlockedEval(p, p.ns, e.JobID)
	if other != nil {
		b = other.Copy()
	}

	b.Namespace = p.ns
	b.Type = p.job.Type
	b.JobID = e.JobID
	b.TriggeredBy = structs.TriggerQueuedAllocs
	b.Again = ""
	p.setBlocked(b, keys)
	b.FailedTGAllocs = maps.Clone(e.FailedTGAllocs)
	b.QueuedAllocations = maps.Clone(e.QueuedAllocations)
	b.ModifyTime = p.now.UnixNano()
	e.BlockedEval = b.ID
	p.plan.Blocked = b
}

// setBlocked makes an evaluation one that waits for keys.
func (p *planner) setBlocked(e *structs.Evaluation, keys []string) {
	e.JobModifyIndex = p.job.JobModifyIndex
	e.Priority = p.job.Priority // evaluations of one queue displace the same allocations
	e.Status = structs.EvalBlocked
	e.StatusDescription = "waiting for capacity"
	e.BlockedOn = keys
	e.Shape = p.shape()
}

// snapshotIndex returns the index of the state that the plan has seen. It must not be below the index of any
// unblock in the snapshot.
func snapshotIndex(tx *state.ReadTx) uint64 {
	return max(tx.Newest(), state.NewestForPlans(tx))
}
