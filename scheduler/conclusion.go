package scheduler

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"berth/scheduler/feasible"
	"berth/scheduler/place"
	"berth/scheduler/rejects"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/structs"
	"berth/structs/quota"
)

// conclusion completes a plan after its placements: it completes or blocks the evaluation, and adds the
// evaluations that follow.
type conclusion struct {
	planner   *planner
	outlook   *feasible.Outlook
	placer    *place.Placer
	nextBatch string // ID of the evaluation that continues an update, or ""
}

// retryDelay is the delay after which an evaluation is retried that waits for more volumes than maxKeys, or
// for a change that no key tells of.
const retryDelay = time.Minute

// addFollowup adds one evaluation for the first of the delayed replacements without one. That evaluation adds
// the next.
func (p *conclusion) addFollowup() {
	var f *structs.Evaluation
	for _, w := range p.planner.delayed {
		// An allocation names its follow-up, so plans in between do not add one each.
		if p.isFollowed(w) {
			continue
		}
		if f == nil {
			f = p.evalAt(w.Due)
			p.outlook.Plan.Followups = append(p.outlook.Plan.Followups, f)
		}

		// The evaluation looks at all allocations of the job, so the earliest time serves them all.
		f.WaitUntil = min(f.WaitUntil, w.Due)
		p.outlook.Plan.Update = append(p.outlook.Plan.Update, &structs.PlanUpdate{
			AllocID:        w.Alloc.ID,
			FollowupEvalID: f.ID,
		})
	}
}

// evalAt returns an evaluation of the job, with the same scope, for a time.
func (p *conclusion) evalAt(due int64) *structs.Evaluation {
	e := structs.NewEval(p.outlook.Job, structs.TriggerScheduled, p.outlook.Now.UnixNano())
	e.ID = structs.NewID()
	e.NodeID = p.outlook.Scope
	e.WaitUntil = due
	e.PreviousEval = p.outlook.Eval.ID
	return e
}

// isFollowed reports whether an evaluation follows for the replacement, in time or early.
func (p *conclusion) isFollowed(w rollout.Decision) bool {
	f := state.Eval(p.outlook, w.Alloc.FollowupEvalID)
	return f != nil &&
		f.ID != p.outlook.Eval.ID &&
		f.Status == structs.EvalPending &&
		f.WaitUntil <= w.Due
}

// addNextBatch adds the evaluation that continues the updates which the plan leaves to a later one.
func (p *conclusion) addNextBatch() {
	due := int64(0)
	for _, w := range p.planner.placements {
		// Updates of a deployment go on when a node reports health, so only per-node groups need a time.
		if !w.Held || !w.Group.Spec.Job.PerNode() || w.Group.Pace.MayUpdate() {
			continue
		}

		next := max(w.Group.Pace.Next, p.outlook.Now.UnixNano())
		if due == 0 || next < due {
			due = next
		}
	}

	if due == 0 {
		return
	}

	// One that is due by then continues the update, too. A plan of a single node adds none beside any other,
	// because each of the nodes would.
	for e := range state.LaterEvalsByJob(p.outlook, p.outlook.Namespace, p.outlook.Job.ID) {
		if e.TriggeredBy == structs.TriggerRollingUpdate && e.ID != p.outlook.Eval.ID &&
			(p.outlook.Scope != "" || e.WaitUntil <= due) {
			p.nextBatch = e.ID
			return
		}
	}

	e := p.evalAt(due)

	// Only an evaluation of all nodes may replace allocations in batches.
	e.NodeID = ""
	e.TriggeredBy = structs.TriggerRollingUpdate
	p.nextBatch = e.ID
	p.outlook.Plan.Followups = append(p.outlook.Plan.Followups, e)
}

// reasonsInAll bounds the reasons that an evaluation names for all its groups together, about: a job with
// many groups would make the log entry too large.
const reasonsInAll = 2000

// finishEval completes or blocks the evaluation.
func (p *conclusion) finishEval() {
	// A blocked evaluation is planned again under its ID, so what its last plan has said is cleared.
	e := p.outlook.Eval.Copy()
	e.Namespace = p.outlook.Namespace
	e.Status = structs.EvalComplete
	e.StatusDescription = ""
	e.Again = ""
	e.BlockedEval = ""
	e.QuotaLimitReached = ""
	e.NextEval = p.nextBatch
	if d := p.planner.rollout.Deployment(); d != nil {
		e.DeploymentID = d.ID // clients of the dialect follow it from here
	}

	e.BlockedOn = nil
	e.Shape = ""
	keys := p.countFailures(e)
	p.addWaiting(e)
	p.outlook.Plan.Eval = e
	if p.outlook.Job != nil {
		p.outlook.Plan.JobModifyIndex = p.outlook.Job.JobModifyIndex
	}

	// What this plan has left was not tried, so the evaluation stays pending and is planned again.
	if p.placer.More {
		p.outlook.Plan.Eval = place.MoreFollow(e)
		e = p.outlook.Plan.Eval
	}

	if e.FailedTGAllocs != nil {
		keys = p.boundKeys(keys)
		p.blockEval(e, slices.Sorted(maps.Keys(keys)))
		p.addRetryEval()
	}

	// The log compares it with the last unblock of the keys: a change that this plan did not see makes the
	// evaluation pending at once, so that no unblock is lost between plan and entry.
	e.SnapshotIndex = snapshotIndex(p.outlook.ReadTx)
	if p.outlook.Plan.Blocked != nil {
		p.outlook.Plan.Blocked.SnapshotIndex = e.SnapshotIndex
	}
}

// countFailures sets the placements of the evaluation that found no node, and returns the unblock keys of
// changes after which they may.
func (p *conclusion) countFailures(e *structs.Evaluation) (keys map[string]bool) {
	e.FailedTGAllocs = nil
	e.QueuedAllocations = map[string]int{}
	keys = p.capacityKeys()
	byQuota := true

	// The reasons are divided evenly, and each group keeps at least one.
	share := reasonsInAll / max(1, len(p.placer.Groups))
	most := min(structs.MaxReasons, max(1, share))
	for _, g := range p.placer.Groups {
		// A group may be in the plan in several versions.
		e.QueuedAllocations[g.Spec.TaskGroup.Name] += g.Queued
		if g.Failed == nil {
			continue
		}

		if e.FailedTGAllocs == nil {
			e.FailedTGAllocs = map[string]*structs.AllocMetric{}
		}

		e.FailedTGAllocs[g.Spec.TaskGroup.Name] = g.Failed.ToMetric(most)
		maps.Copy(keys, g.Failed.Keys)
		byQuota = byQuota && g.Failed.OnlyBy(rejects.FilterQuota)
		if len(g.Failed.Metric.QuotaExhausted) > 0 {
			e.QuotaLimitReached = feasible.QuotaName(p.outlook)
		}
	}

	// No node was tried, so freed capacity changes nothing.
	if byQuota && e.QuotaLimitReached != "" {
		return map[string]bool{quota.UnblockKey(e.QuotaLimitReached): true}
	}

	return keys
}

// addRetryEval adds an evaluation for later, if there is none, when no key tells of a change after which this
// one may find capacity: the keys were too many to name, or a plugin leaves its node.
func (p *conclusion) addRetryEval() {
	if !p.outlook.Keys.TooMany && !p.outlook.Waits {
		return
	}

	due := p.outlook.Now.Add(retryDelay).UnixNano()
	if p.outlook.Waits {
		// All jobs with volumes of the plugin wait like this one. They are not to come back in one second.
		due += jitter(p.outlook.Namespace, p.outlook.Eval.JobID).Nanoseconds()
	}

	for e := range state.LaterEvalsByJob(p.outlook, p.outlook.Namespace, p.outlook.Job.ID) {
		covers := e.NodeID == "" || e.NodeID == p.outlook.Scope
		if covers &&
			e.ID != p.outlook.Eval.ID &&
			e.WaitUntil <= due {
			return
		}
	}

	e := p.evalAt(due)
	if p.outlook.Waits {
		e.NodeID = "" // one for all nodes of a per-node job
	}

	p.outlook.Plan.Followups = append(p.outlook.Plan.Followups, e)
}

// jitter returns a time below 17 s, another one for most jobs.
func jitter(ns, job string) time.Duration {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, ns, job)
	return time.Duration(h.Sum32()%(1<<14)) * time.Millisecond
}

// boundKeys keeps at most maxKeys unblock keys of volumes. If there are more, the evaluation is retried
// later.
func (p *conclusion) boundKeys(keys map[string]bool) map[string]bool {
	if len(keys) <= feasible.MaxKeys {
		return keys
	}
	p.outlook.Keys.TooMany = true
	kept := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		// Keys of other things always stay. There are few of them.
		if len(kept) < feasible.MaxKeys || !structs.WakesVolume(k) {
			kept[k] = true
		}
	}
	return kept
}

// capacityKeys returns the unblock keys of freed capacity: on any node, or for a per-node job without volumes
// on the nodes without capacity.
func (p *conclusion) capacityKeys() map[string]bool {
	volumes := slices.ContainsFunc(p.placer.Groups, func(g *place.Group) bool {
		return len(g.Spec.TaskGroup.Volumes) > 0
	})
	exhausted := len(p.placer.ExhaustedNodes)

	// A key per node is right only if nothing but the capacity of that node decides. A volume moves between
	// nodes, and a limit of a property makes the nodes depend on each other.
	if p.outlook.Job == nil ||
		!p.outlook.Job.PerNode() ||
		p.outlook.Job.LimitsProperty() ||
		volumes ||
		exhausted > structs.ManyNodes ||
		exhausted == 0 && !p.planner.nowhere {
		return map[string]bool{structs.WakeCapacity: true}
	}

	keys := map[string]bool{}
	if p.planner.nowhere {
		keys[structs.WakeNodes] = true
	}

	for id := range p.placer.ExhaustedNodes {
		keys[structs.WakeNode(id)] = true
	}

	return keys
}

// addWaiting adds the counts of nodes outside the scope for which the job waits.
func (p *conclusion) addWaiting(e *structs.Evaluation) {
	if p.outlook.Scope == "" {
		return
	}

	// A job has one blocked evaluation. This one replaces its counts, and must not forget the other nodes.
	b := state.BlockedEval(p.outlook, p.outlook.Namespace, e.JobID)
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
func (p *conclusion) blockEval(e *structs.Evaluation, keys []string) {
	if e.TriggeredBy == structs.TriggerQueuedAllocs {
		p.setBlocked(e, keys)
		return
	}

	b := &structs.Evaluation{
		ID:           structs.NewID(),
		PreviousEval: e.ID,
		CreateTime:   p.outlook.Now.UnixNano(),
	}

	// A second blocked evaluation of a job would be planned again for nothing.
	other := state.BlockedEval(p.outlook, p.outlook.Namespace, e.JobID)
	if other != nil {
		b = other.Copy()
	}

	b.Namespace = p.outlook.Namespace
	b.Type = p.outlook.Job.Type
	b.JobID = e.JobID
	b.TriggeredBy = structs.TriggerQueuedAllocs
	b.Again = ""
	p.setBlocked(b, keys)
	b.FailedTGAllocs = maps.Clone(e.FailedTGAllocs)
	b.QueuedAllocations = maps.Clone(e.QueuedAllocations)
	b.QuotaLimitReached = e.QuotaLimitReached
	b.ModifyTime = p.outlook.Now.UnixNano()
	e.BlockedEval = b.ID
	p.outlook.Plan.Blocked = b
}

// setBlocked makes an evaluation one that waits for keys.
func (p *conclusion) setBlocked(e *structs.Evaluation, keys []string) {
	e.JobModifyIndex = p.outlook.Job.JobModifyIndex
	e.Priority = p.outlook.Job.Priority // evaluations of one queue displace the same allocations
	e.Status = structs.EvalBlocked
	e.StatusDescription = "waiting for capacity"
	if slices.Equal(keys, []string{quota.UnblockKey(feasible.QuotaName(p.outlook))}) {
		e.StatusDescription = "waiting for quota " + feasible.QuotaName(p.outlook)
	}

	e.BlockedOn = keys
	e.Shape = p.placer.Shape()
}

// snapshotIndex returns the index of the state that the plan has seen. It must not be below the index of any
// unblock in the snapshot.
func snapshotIndex(tx *state.ReadTx) uint64 {
	return max(tx.Newest(), state.NewestForPlans(tx))
}
