package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/scheduler/drainer"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/inquiry"
)

// DeletedJob explains which allocations of a job without a row have not ended, or still hold volumes. It
// reports whether there are any.
func DeletedJob(tx *state.ReadTx, namespace, id string, now time.Time) (
	waits bool, reasons []*inquiry.Reason,
) {
	// The allocations outlive the row. This one has what the explainers read of a stopped job.
	j := &structs.Job{Namespace: structs.NamespaceOr(namespace), ID: id, Stop: true}
	x := newJobExplainer(View{Tx: tx, Now: now}, j)
	reasons = x.stoppedJob(j, "deleted")
	return len(reasons) > 0, reasons
}

// stoppedJob explains which allocations of a job have not ended, or still hold volumes. The job is stopped or
// deleted.
func (x *jobExplainer) stoppedJob(j *structs.Job, stopped string) []*inquiry.Reason {
	var ending sample
	for a := range state.AllocsByJob(x.tx, j.Namespace, j.ID) {
		switch {
		case a.ClientTerminal():
		case ending.full():
			ending.rest++
		default:
			ending.add(x.endingAlloc(a))
		}
	}

	held := x.heldVolumes(j)
	left := len(ending.reasons) + ending.rest
	if left == 0 {
		return held
	}

	r := reason("job %s is %s, and %s of it did not end yet", j.ID, stopped, count(left, "allocation"))
	r.Because = ending.list("allocations")
	return append([]*inquiry.Reason{r}, held...)
}

// ending explains the allocations of a job that are to stop and have not ended, and the ended ones that still
// hold volumes, as far as no reason before has named them.
func (x *jobExplainer) ending(j *structs.Job) []*inquiry.Reason {
	var ending sample
	for a := range state.AllocsByJob(x.tx, j.Namespace, j.ID) {
		switch {
		case !a.ServerTerminal(), a.ClientTerminal(), x.shown[a.ID]:
		case ending.full():
			ending.rest++
		default:
			ending.add(x.endingAlloc(a))
		}
	}

	return append(ending.list("allocations"), x.heldVolumes(j)...)
}

// heldVolumes explains the claims of a job's allocations that have ended.
func (x *jobExplainer) heldVolumes(j *structs.Job) []*inquiry.Reason {
	var held sample
	for a := range state.AllocsByJob(x.tx, j.Namespace, j.ID) {
		if !a.ClientTerminal() || x.shown[a.ID] {
			continue
		}

		for c := range csi.ClaimsByAlloc(x.tx, a.ID) {
			switch {
			case c.EndTime == 0:
			case held.full():
				held.rest++
			default:
				held.add(x.heldClaim(c))
			}
		}
	}

	return held.list("claims")
}

// heldClaim explains a claim of an allocation that has ended, with the name of its volume.
func (x *explainer) heldClaim(c *structs.CSIClaim) *inquiry.Reason {
	return x.endedClaim(c, fmt.Sprintf("the claim of allocation %s on volume %s at node %s",
		structs.ShortID(c.AllocID), c.VolumeID, x.nodeName(c.NodeID)))
}

// endingAlloc explains why an allocation that is to stop still runs.
func (x *explainer) endingAlloc(a *structs.Allocation) *inquiry.Reason {
	x.shown[a.ID] = true
	what := cmp.Or(newestEvent(a), a.ClientDescription, "its tasks have not ended yet")
	r := x.alloc(a, "is stopping: "+what)

	// A node that is down reports no end, however long one waits for its tasks.
	if state.Node(x.tx, a.NodeID).Lost() {
		r.Because = []*inquiry.Reason{x.nodeDown(a.NodeID)}
		return r
	}

	r.Remedy = x.endingRemedy(a)
	return r
}

// endingRemedy names the tasks for which an allocation that is to stop still runs.
func (x *explainer) endingRemedy(a *structs.Allocation) string {
	status := allocCommand(a, "status")
	tasks := drainer.TasksLeft(x.tx, a)
	if len(tasks) == 0 {
		return status
	}

	remedy := "its node waits for " + strings.Join(tasks, ", ") + ": " + status
	if x.isDelayed(a) {
		remedy += "; to end it without its shutdown_delay: " + allocCommand(a, "stop -no-shutdown-delay")
	}

	return remedy
}

// isDelayed reports whether the job of an allocation lets its tasks run on for a while when they are to stop.
func (x *explainer) isDelayed(a *structs.Allocation) bool {
	j := state.JobOf(x.tx, a)
	if a.NoShutdownDelay || j == nil || j.Group(a.TaskGroup) == nil {
		return false
	}
	g := j.Group(a.TaskGroup)
	delayed := func(t *structs.Task) bool { return t.ShutdownDelay > 0 }
	return g.ShutdownDelay != nil && *g.ShutdownDelay > 0 || slices.ContainsFunc(g.Tasks, delayed)
}
