package state

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// PlanApply executes a plan of the scheduler as far as it still fits: on each node all placements and stops
// of the plan, or none. That of a job with AllAtOnce has no effect if one node rejects it, and no plan has
// one beyond the quota of its namespace. If something is rejected, or the job has changed since the plan was
// made, the evaluation becomes pending again.
func PlanApply(tx *WriteTx, p *structs.Plan) error {
	if !isWholePlan(p) {
		return structs.Invalidf("a plan needs its evaluation, and nothing in it may be empty")
	}

	e := stampEval(p.Eval, p.Now)
	if why := stalePlan(tx, p, e); why != "" {
		retryEval(tx, e, "", why)
		return nil
	}

	j := Job(tx, e.Namespace, e.JobID)
	if j != nil {
		e.Type = j.Type // the type of the plan: the job may have had another type at the request
	}

	check := newPlanApply(tx, p)
	place := newPlacements(tx, p)
	rejected := check.rejectedNodes(place)

	// The job exists: stalePlan rejects the placements for one that is gone.
	if len(rejected) > 0 && j.AllAtOnce {
		why := append(rejectionTexts(rejected), "the job is all_at_once, so nothing of it took effect")
		retryEval(tx, e, "", why...)
		return nil
	}

	place = slices.DeleteFunc(place, func(a *structs.Allocation) bool { return rejected[a.NodeID] != "" })
	if why := check.quotaRejection(e.Namespace, place, rejected); why != "" {
		retryEval(tx, e, "", why)
		return nil
	}

	err := check.applyPlanned(tx, e, place, rejected)
	if err != nil {
		return err
	}

	// The outcome comes last: storeEval asks whether allocations name the evaluation.
	switch {
	case len(rejected) > 0:
		retryEval(tx, e, "", rejectionTexts(rejected)...)
	case changedSincePlan(tx, e):
		retryEval(tx, e, structs.EvalChanged, changedMeanwhile)
	default:
		putEval(tx, e)
	}

	return nil
}

// isWholePlan reports whether a plan has its evaluation and no empty part.
func isWholePlan(p *structs.Plan) bool {
	return p.Eval != nil && p.Eval.ID != "" &&
		!slices.Contains(p.Place, nil) &&
		!slices.Contains(p.Stop, nil) &&
		!slices.Contains(p.Update, nil) &&
		!slices.Contains(p.DeploymentUpdates, nil)
}

// applyPlanned executes the parts of the plan of e that no node has rejected. place has the placements of
// them.
func (c *planApply) applyPlanned(
	tx *WriteTx, e *structs.Evaluation, place []*structs.Allocation, rejected map[string]string,
) error {
	p := c.plan

	// It comes before its allocations: only a stored deployment counts them (isCounted).
	if p.Deployment != nil {
		putDeployment(tx, p.Deployment, p.Now)
	}

	for _, s := range p.Stop {
		stopPlanned(tx, s, rejected, p.Now)
	}

	for _, u := range p.Update {
		updatePlanned(tx, u, p.Now)
	}

	err := c.placePlanned(tx, place, e)
	if err != nil {
		return err
	}

	for _, u := range p.DeploymentUpdates {
		own := *u
		own.RowIndex = 0 // stalePlan has checked it, and the stops above may have changed the row
		updateDeployment(tx, &own, p.Now)
	}

	for _, f := range p.Followups {
		if f != nil {
			putEval(tx, stampEval(f, p.Now))
		}
	}

	if p.Blocked != nil {
		putBlocked(tx, stampEval(p.Blocked, p.Now), e)
	}
	return nil
}

// rejectionTexts returns the reasons of the nodes that reject a plan.
func rejectionTexts(rejected map[string]string) (texts []string) {
	for node, why := range rejected {
		texts = append(texts, fmt.Sprintf("node %s rejected the plan: %s", node, why))
	}
	return texts
}

// putBlocked puts the blocked evaluation for the placements that the plan of e could not make. If it replaces
// one that was unblocked since the plan was made, it becomes pending, because the unblock may concern
// something that the plan did not read.
func putBlocked(tx *WriteTx, b, e *structs.Evaluation) {
	if ofOneNode(e) {
		joinBlocked(tx, b)
	}
	if unblock.Since(tx, b) == "" && changedSincePlan(tx, b) {
		unblock.PendAgain(b, structs.EvalChanged, changedMeanwhile)
	}
	putEval(tx, b)
}

// stalePlan returns how the job has changed since the plan was made, and "" if it has not.
func stalePlan(tx Reader, p *structs.Plan, e *structs.Evaluation) string {
	j := Job(tx, e.Namespace, e.JobID)
	switch {
	case j == nil && (len(p.Place) > 0 || p.Deployment != nil):
		return "the job is gone"
	case j != nil && j.JobModifyIndex != p.JobModifyIndex:
		return fmt.Sprintf("the job has changed: it was planned at index %d and is at %d",
			p.JobModifyIndex, j.JobModifyIndex)
	}
	return staleDeployment(tx, p, e)
}

// groupOf returns the group of an allocation in the version that it runs, nil if the state no longer has it.
func groupOf(tx Reader, a *structs.Allocation) *structs.TaskGroup {
	j := JobOf(tx, a)
	if j == nil {
		return nil
	}
	return j.Group(a.TaskGroup)
}

// resourcesOf returns the resources of an allocation, or the ask of its group for a placement without any.
func resourcesOf(a *structs.Allocation, g *structs.TaskGroup) structs.Resources {
	if a.Resources != nil {
		return *a.Resources
	}
	return g.Ask()
}

// stopPlanned stops an allocation. A node that rejected the plan also rejected the replacement, so the
// allocation keeps running. An allocation that is lost with its node always stops.
func stopPlanned(
	tx *WriteTx,
	s *structs.PlanStop,
	rejected map[string]string,
	now int64,
) {
	old := Alloc(tx, s.AllocID)
	if old == nil ||
		(rejected[old.NodeID] != "" && s.ClientStatus == "") {
		return
	}

	a := old.Copy()
	preempted := s.PreemptedBy != ""
	if preempted && old.Terminal() {
		return // it ends already
	}

	a.DesiredStatus = structs.AllocDesiredStop
	a.DesiredDescription = s.Description
	a.StopCause = s.Cause
	if preempted {
		a.DesiredStatus = structs.AllocDesiredEvict
		a.PreemptedByAllocation = s.PreemptedBy
	}

	a.FollowupEvalID = cmp.Or(s.FollowupEvalID, a.FollowupEvalID)
	lost := s.ClientStatus
	if Node(tx, old.NodeID).Lost() {
		lost = structs.AllocLost // no report of its end will come
	}

	if lost != "" && !old.ClientTerminal() {
		a.ClientStatus = lost
		a.ClientDescription = s.Description
	}

	if reflect.DeepEqual(old, a) {
		return
	}

	a.AllocModifyIndex = tx.Index
	a.ModifyTime = now
	putAlloc(tx, old, a)
	if preempted {
		evaluatePreempted(tx, a, now)
	}
}

// evaluatePreempted puts an evaluation of the job of an allocation that was displaced.
func evaluatePreempted(tx *WriteTx, a *structs.Allocation, now int64) {
	j := Job(tx, a.Namespace, a.JobID)
	if j == nil || j.Stop {
		return
	}
	e := structs.NewEval(j, structs.TriggerPreemption, now)
	e.NodeID = a.NodeID
	enqueueEval(tx, e, deriveID(tx, structs.TriggerPreemption, j.Namespace, j.ID, a.ID))
}

// AllocPriority returns the priority of an allocation: of its job now, or of its version if the job is gone.
func AllocPriority(tx Reader, a *structs.Allocation) int {
	j := cmp.Or(Job(tx, a.Namespace, a.JobID), JobOf(tx, a))
	if j == nil {
		return structs.JobDefaultPriority
	}
	return j.Priority
}

// updatePlanned applies the changes of a plan to an allocation that keeps its place: a version that it takes
// over without a restart, a later evaluation, or the wait for a node that may come back.
func updatePlanned(tx *WriteTx, u *structs.PlanUpdate, now int64) {
	old := Alloc(tx, u.AllocID)
	if old == nil {
		return
	}

	a := old.Copy()
	a.FollowupEvalID = cmp.Or(u.FollowupEvalID, a.FollowupEvalID)
	if u.KeepOriginal {
		a.NextAllocation = ""
	}

	// The node may have come back since the plan was made, and then reports the allocation itself.
	if u.Unknown && !old.Terminal() && Node(tx, old.NodeID).Lost() {
		makeUnknown(tx, a, now)
	}

	if u.SetJobVersion {
		a.JobVersion = u.JobVersion
		a.DeploymentID = u.DeploymentID
		a.DeploymentStatus = nil
		a.NoShutdownDelay = false // of a stop that a later registration took back
	}

	if reflect.DeepEqual(old, a) {
		return
	}

	group := groupOf(tx, a)
	if u.SetJobVersion && group != nil {
		a.CSIPlugins = group.Plugins()
		a.CSIVolumes = append(group.CSIUses(a.Index(), a.ID), storage.HostVolumeUses(group, old.CSIVolumes)...)
		a.AllocModifyIndex = tx.Index
	}

	// Only a new job version changes the time. Otherwise the end of an allocation without tasks would move,
	// and so would its replacement.
	if u.SetJobVersion {
		a.ModifyTime = now
	}

	putAlloc(tx, old, a)
}

// makeUnknown marks an allocation whose node is down and may come back. It offers no services meanwhile, and
// its node reads the new state and reports the allocation.
func makeUnknown(tx *WriteTx, a *structs.Allocation, now int64) {
	if a.IsUnknown() {
		return
	}
	a.ClientStatus = structs.AllocUnknown
	a.ClientDescription = schema.NodeIsDown
	a.Services = nil
	a.AllocModifyIndex = tx.Index
	a.ModifyTime = now
}
