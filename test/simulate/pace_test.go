package simulate

import (
	"time"

	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
)

// longestDelay is the longest time between the failure of a task and its replacement.
const longestDelay = 10 * time.Minute

// delay draws the time between the failure of a task and its replacement. With a script it is short.
func (w *world) delay() time.Duration {
	if w.script == nil && w.chance(3) {
		return longestDelay
	}
	return 5 * time.Second
}

// pace is what is known of the replacements of failed tasks.
type pace struct {
	replaced map[string]bool // allocations that have a replacement
	time     time.Time       // the cluster time at the last entry
	at       time.Duration   // when that was
}

// slack is by how much a delay may be too short or too long: a minute is the most by which the clock of a
// node counts, another one is the most by which a new leader takes the cluster time forward at once.
const slack = 2 * time.Minute

// checkPace checks that failed tasks are replaced after their delay by the time that really passes.
func (w *world) checkPace(tx *state.ReadTx) {
	row := clustertime.Of(tx)
	if row == nil {
		return
	}
	p := &w.seen.pace
	now := time.Unix(0, row.Time)
	if !p.time.IsZero() && now.Sub(p.time) > w.now-p.at+slack {
		w.stepped = w.now
		w.note("the cluster time follows the clocks")
	}
	p.time = now
	p.at = w.now

	latest := w.clusterTime().Now().Add(longestDelay + slack).UnixNano()
	for e := range state.LaterEvals(tx) {
		if e.WaitUntil > latest {
			w.violate(pacedReplacement, "evaluation %s of job %s waits %s too long", structs.ShortID(e.ID), e.JobID,
				time.Duration(e.WaitUntil-latest))
		}
	}
	for _, id := range w.jobs {
		for a := range state.LiveAllocsByJob(tx, structs.DefaultNamespace, id) {
			if a.PreviousAllocation != "" && !p.replaced[a.PreviousAllocation] {
				p.replaced[a.PreviousAllocation] = true
				w.checkReplacement(tx, a)
			}
		}
	}
}

// checkReplacement checks the time of a replacement.
func (w *world) checkReplacement(tx *state.ReadTx, a *structs.Allocation) {
	before := state.Alloc(tx, a.PreviousAllocation)
	if before == nil || before.JobVersion != a.JobVersion || before.DesiredStatus != structs.AllocDesiredRun {
		return // it need not have failed
	}
	end := w.node(before.NodeID).ended[before.ID]
	job := state.JobVersion(tx, a.Namespace, a.JobID, a.JobVersion)
	if end.status != structs.AllocFailed || end.truly <= w.stepped || job == nil {
		return
	}
	delay := job.Group(a.TaskGroup).ReschedulePolicy.Delay
	if passed := w.now - end.truly; passed < delay*9/10-slack {
		w.violate(pacedReplacement, "allocation %s of job %s replaces one that failed %s ago, before its delay of %s",
			structs.ShortID(a.ID), a.JobID, passed, delay)
	}
}
