package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// This file has the reasons of single allocations, which failed, wait, or run with a fault.

// failures explains the failed allocations that nothing replaces yet. After a failed deployment its own are
// not replaced at all, also not for an operator.
func (x *jobExplainer) failures(j *structs.Job) []*structs.Reason {
	var failed sample
	d := state.DeploymentOfVersion(x.tx, j)
	for a := range state.AllocsByJob(x.tx, j.Namespace, j.ID) {
		if a.ClientStatus != structs.AllocFailed || a.ServerTerminal() ||
			a.NextAllocation != "" || a.JobVersion != j.Version {
			continue
		}

		if failed.full() {
			failed.rest++
			continue
		}

		r := x.alloc(a, "failed: "+lastEvent(a))
		follow := state.Eval(x.tx, a.FollowupEvalID)
		switch {
		case d != nil && d.Status == structs.DeploymentFailed && a.DeploymentID == d.ID:
			r.Because = []*structs.Reason{reason("its deployment has failed, so nothing replaces it")}
			r.Remedy = causeCommand(a) + "; mend the cause, then run the job again"
		case follow != nil && !follow.Terminal():
			r.Because = []*structs.Reason{reason("it is replaced %s", x.until(follow.WaitUntil))}
			r.Remedy = "to see the cause: " + causeCommand(a)
		default:
			r.Because = []*structs.Reason{reason("its reschedule policy allows no more replacements")}
			r.Remedy = causeCommand(a) + "; mend the cause, then: " +
				command(j.Namespace, "job eval -force-reschedule", j.ID)
		}

		failed.add(r)
	}

	return failed.list("failed allocations")
}

// lastEvent returns the text of the newest event of a task, or what else the node says.
func lastEvent(a *structs.Allocation) string {
	return cmp.Or(newestEvent(a), a.ClientDescription, "its node has reported no event yet")
}

// newestTask returns the task with the newest event, which is nil without events. Failed tasks come first.
func newestTask(a *structs.Allocation) (task string, newest *structs.TaskEvent) {
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		s := a.TaskStates[name]
		for _, e := range s.Events {
			// The other tasks of a failed allocation end because of the failed one, and later.
			if s.Failed == (a.ClientStatus == structs.AllocFailed) &&
				(newest == nil || e.Time >= newest.Time) {
				newest = e
				task = name
			}
		}
	}

	return task, newest
}

// newestEvent returns the text of the newest event of a task, failed tasks first, "" without events.
func newestEvent(a *structs.Allocation) string {
	task, newest := newestTask(a)
	if newest == nil {
		return ""
	}

	text := newest.Type
	message := cmp.Or(newest.DisplayMessage, newest.Message)
	if message != "" {
		text += ": " + message
	}

	return fmt.Sprintf("task %s: %s", task, text)
}

// allocations explains the live allocations that do not run yet, or whose plugin is not healthy.
func (x *jobExplainer) allocations(j *structs.Job) []*structs.Reason {
	var all sample
	for a := range state.LiveAllocsByJob(x.tx, j.Namespace, j.ID) {
		switch {
		case x.shown[a.ID]:
		case !all.full():
			all.add(x.liveAlloc(a))
		case a.ClientStatus == structs.AllocPending:
			all.rest++
		}
	}

	return all.list("allocations")
}

// liveAlloc explains an allocation that the servers want to run, nil if it needs no explanation.
func (x *jobExplainer) liveAlloc(a *structs.Allocation) *structs.Reason {
	switch {
	case a.IsUnknown():
		return x.unknownAlloc(a)
	case state.Node(x.tx, a.NodeID).Lost():
		r := x.alloc(a, "is on a node that is lost")
		r.Because = []*structs.Reason{x.nodeDown(a.NodeID)}
		r.Remedy = "an evaluation replaces it; if this lasts: " + command(a.Namespace, "job eval", a.JobID)
		return r
	case a.ClientStatus == structs.AllocPending:
		return x.pendingAlloc(a)
	}

	return cmp.Or(x.deadTask(a), x.sickPlugin(a))
}

// pendingAlloc explains why an allocation does not run yet: a claim, or what its node says.
func (x *jobExplainer) pendingAlloc(a *structs.Allocation) *structs.Reason {
	// The node starts no task before its claims are usable, so a claim that waits precedes what the node
	// says.
	claims := x.waitingClaims(a)
	if len(claims) > 0 {
		r := x.alloc(a, "is "+a.ClientStatus+" and waits for its volumes")
		r.Because = claims
		return r
	}

	if r := x.awaited(a); r != nil {
		return r
	}

	if a.ClientDescription == "" && len(a.TaskStates) == 0 {
		r := x.alloc(a, "is placed, and its node has not reported on it yet")
		r.Remedy = "if this lasts, see the log of the agent on node " + x.nodeName(a.NodeID)
		return r
	}

	text := a.ClientDescription

	// The description often repeats the end of the newest event.
	if event := lastEvent(a); len(a.TaskStates) > 0 && (text == "" || !strings.HasSuffix(event, text)) {
		text = strings.TrimPrefix(text+"; "+event, "; ")
	}

	r := x.alloc(a, "is pending: "+text)
	r.Remedy = allocCommand(a, "status")
	return r
}

// waitingClaims explains the claims of an allocation that its node cannot use yet.
func (x *jobExplainer) waitingClaims(a *structs.Allocation) (claims []*structs.Reason) {
	for c := range csi.ClaimsByAlloc(x.tx, a.ID) {
		why := csi.ClaimBlocked(x.tx, c)
		if why != "" {
			r := reason("its claim on volume %s is %s: %s", c.VolumeID, c.State, why)
			v := csi.Volume(x.tx, c.Namespace, c.VolumeID)
			switch {
			case v == nil:
			case c.State == structs.ClaimWaiting:
				r.Because = append(x.users(v, c.Class().Conflicts), x.attachments(v, anyNode)...)
			default:
				r.Because = x.attachments(v, func(node string) bool { return node == c.NodeID })
			}

			claims = append(claims, r)
		}
	}

	return claims
}

// deadTask explains an allocation that runs while one of its tasks waits for its next start, or for its turn.
func (x *jobExplainer) deadTask(a *structs.Allocation) (turn *structs.Reason) {
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		s := a.TaskStates[name]
		if s.State != structs.TaskPending || len(s.Events) == 0 {
			continue
		}

		if first := x.awaitedTask(a, name); first != "" {
			// A task that does not run for another reason is the one to name, so the loop goes on.
			turn = x.alloc(a,
				fmt.Sprintf("has a task that waits for its turn: %s starts after task %s, which is %s",
					name, first, stateOf(a, first)))
			turn.Remedy = taskCommand(a, first)
			continue
		}

		last := s.Events[len(s.Events)-1]
		r := x.alloc(a, fmt.Sprintf("has a task that does not run: %s: %s: %s", name, last.Type,
			cmp.Or(last.DisplayMessage, last.Message)))
		r.Remedy = taskCommand(a, name)
		return r
	}

	return turn
}
