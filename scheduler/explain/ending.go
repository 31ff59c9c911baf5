package explain

import (
	"cmp"
	"fmt"
	"time"

	"berth/state"
	"berth/structs"
)

// stoppedJob explains which allocations of a stopped job have not ended, or still hold volumes.
func (x *explainer) stoppedJob(j *structs.Job) []*structs.Reason {
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
	r := reason("job %s is stopped, and %s of it did not end yet", j.ID, count(left, "allocation"))
	r.Because = ending.list("allocations")
	return append([]*structs.Reason{r}, held...)
}

// ending explains the allocations of a job that are to stop and have not ended, and those that have ended and
// still hold volumes, as far as no reason before has named them.
func (x *explainer) ending(j *structs.Job) []*structs.Reason {
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
func (x *explainer) heldVolumes(j *structs.Job) []*structs.Reason {
	var held sample
	for a := range state.AllocsByJob(x.tx, j.Namespace, j.ID) {
		if !a.ClientTerminal() || x.shown[a.ID] {
			continue
		}
		for c := range state.ClaimsByAlloc(x.tx, a.ID) {
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
func (x *explainer) heldClaim(c *structs.CSIClaim) *structs.Reason {
	return x.endedClaim(c, fmt.Sprintf("the claim of allocation %s on volume %s at node %s",
		structs.ShortID(c.AllocID), c.VolumeID, x.nodeName(c.NodeID)))
}

// endingAlloc explains why an allocation that is to stop still runs.
func (x *explainer) endingAlloc(a *structs.Allocation) *structs.Reason {
	x.shown[a.ID] = true
	r := x.alloc(a, "is stopping: "+cmp.Or(newestEvent(a), "its tasks have not ended yet"))
	if state.Node(x.tx, a.NodeID).Lost() {
		r.Because = []*structs.Reason{x.nodeDown(a.NodeID)}
		return r
	}
	r.Remedy = "it ends at the latest after its " + x.killTimeout(a) + ": " + allocCommand(a, "status")
	return r
}

// killTimeout names the longest kill_timeout of an allocation's tasks.
func (x *explainer) killTimeout(a *structs.Allocation) string {
	j := state.JobOf(x.tx, a)
	longest := time.Duration(0)
	if j != nil && j.Group(a.TaskGroup) != nil {
		for _, t := range j.Group(a.TaskGroup).Tasks {
			longest = max(longest, t.KillTimeout)
		}
	}
	if longest == 0 {
		return "kill_timeout"
	}
	return fmt.Sprintf("kill_timeout of %s", longest)
}
