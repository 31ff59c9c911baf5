package explain

import (
	"fmt"
	"time"

	"berth/scheduler/disconnect"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
)

// mostScanned bounds the nodes among which those are searched that take no allocations.
const mostScanned = 4096

// nodeDown is the reason that a node is down.
func (x *explainer) nodeDown(id string) *structs.Reason {
	n := state.Node(x.tx, id)
	if n == nil {
		return reason("node %s is deleted", structs.ShortID(id))
	}

	since := clustertime.Corrected(clustertime.Of(x.tx), disconnect.SinceOf(n))
	r := reason("node %s has been down for %s", x.nodeName(id), x.since(since))
	r.Remedy = "start its agent; if the machine is off for good: berth node purge " + structs.ShortID(id)
	if state.LeftOnNode(x.tx, id) != "" { // the purge would be rejected
		r.Remedy = "start its agent; " + confirmRemedy(n)
	}

	return r
}

// notReady explains which nodes of a job's pool and datacenters take no allocations. rejected is the number
// of nodes that the scheduler has found.
func (x *explainer) notReady(j *structs.Job, rejected int) (reasons []*structs.Reason) {
	scanned := 0
	for n := range state.Nodes(x.tx) {
		// The nodes that the filter rejected are not in the evaluation, so they are searched, within a bound.
		if len(reasons) == mostListed || scanned == mostScanned {
			break
		}

		scanned++
		if !n.Ready() && j.InPool(n) && j.InDatacenter(n) {
			reasons = append(reasons, x.nodeNotReady(n))
		}
	}

	// The figure is the plan's. Nodes may have come back since, and then there is nothing to count.
	if left := rejected - len(reasons); left > 0 && len(reasons) > 0 {
		reasons = append(reasons, reason("and %d more nodes", left))
		reasons[len(reasons)-1].Remedy = "berth node status shows the nodes"
	}

	return reasons
}

// nodeNotReady explains why a node takes no allocations.
func (x *explainer) nodeNotReady(n *structs.Node) *structs.Reason {
	id := structs.ShortID(n.ID)
	if n.Lost() {
		return x.nodeDown(n.ID)
	}

	r := reason("node %s is not eligible", x.nodeName(n.ID))
	r.Remedy = "berth node eligibility -enable " + id
	switch {
	case n.Drain:
		r.Text = fmt.Sprintf("node %s drains", x.nodeName(n.ID))
		r.Remedy = fmt.Sprintf(
			"to see what it waits for: berth node status %s; to end it: berth node drain -disable %s", id, id)
	case n.Status != structs.NodeReady:
		r.Text = fmt.Sprintf("node %s is %s", x.nodeName(n.ID), n.Status)
		r.Remedy = "if this lasts, see the log of its agent"
	case n.Returning:
		r.Text = fmt.Sprintf("node %s is back after a loss and still stops and releases what it lost",
			x.nodeName(n.ID))
		r.Remedy = "see the log of its agent for the allocations and volumes that are left; " +
			"to use the node all the same: berth node eligibility -enable " + id
	}

	return r
}

// noNode explains a group that no node has rejected.
func (x *explainer) noNode() *structs.Reason {
	// One node is enough to tell an empty cluster from nodes that may not run the group.
	for range state.Nodes(x.tx) {
		r := reason("no node may run it: each is down, drains, is not eligible, or not in the job's datacenters")
		r.Remedy = "berth node status shows the nodes; " + remedies[eligibilityFilter] +
			", or change datacenters or node_pool of the job"
		return r
	}

	r := reason("the cluster has no node")
	r.Remedy = "berth agent -client -servers HOST:PORT, on each machine that is to run allocations"
	return r
}

// unknownAlloc explains an allocation whose node was or is down, and what ends its state.
func (x *jobExplainer) unknownAlloc(a *structs.Allocation) *structs.Reason {
	r := x.alloc(a, "is unknown")
	n := state.Node(x.tx, a.NodeID)
	if !n.Lost() {
		r.Because = []*structs.Reason{reason("its node is back, and has not reported it yet")}
		r.Remedy = "if this lasts, see the log of its node: berth node status " + structs.ShortID(a.NodeID)
		return r
	}

	r.Because = []*structs.Reason{x.nodeDown(a.NodeID)}
	until := disconnect.LostAt(x.job.Group(a.TaskGroup), n, clustertime.Of(x.tx))
	switch {
	case until != 0:
		r.Because = append(r.Because, reason("it is lost %s, if its node is not back", x.until(until)))
	// A node that is deleted is not waited for.
	case n != nil:
		r.Because = append(r.Because,
			reason("the disconnect block of its group waits for its node without a bound"))
	}

	if a.NextAllocation != "" {
		r.Because = append(r.Because, reason("allocation %s has its place",
			structs.ShortID(a.NextAllocation)))
	}

	r.Remedy = "to give it up: " + command(a.Namespace, "alloc stop", structs.ShortID(a.ID))
	return r
}

// parentJob is the reason of a job that runs nothing itself and has nothing to wait for but its next child.
func (x *jobExplainer) parentJob(j *structs.Job) *structs.Reason {
	if j.Periodic == nil {
		r := reason("job %s is parameterized: it runs nothing itself, and each dispatch starts a child%s",
			j.ID, x.liveChildren(j))
		r.Remedy = dispatchCommand(j)
		return r
	}

	if !j.Periodic.Enabled {
		r := reason("the schedule of job %s is disabled%s", j.ID, x.liveChildren(j))
		r.Remedy = "set enabled = true in its periodic block and run it again: " +
			command(j.Namespace, "job run", "FILE")
		return r
	}

	force := command(j.Namespace, "job periodic force", j.ID)
	next := x.nextLaunch(j)
	if next.IsZero() {
		r := reason("the schedule of job %s has no more launches%s", j.ID, x.liveChildren(j))
		r.Remedy = "change cron in its periodic block and run it again; for one launch now: " + force
		return r
	}

	r := reason("job %s waits for its next launch %s, at %s%s", j.ID, x.until(next.UnixNano()),
		next.Format(time.RFC3339), x.liveChildren(j))
	r.Remedy = "to launch a child now: " + force
	return r
}

// nextLaunch returns the time of the next launch of a periodic job, zero if there is none.
func (x *explainer) nextLaunch(j *structs.Job) time.Time {
	last := state.PeriodicLaunch(x.tx, j.Namespace, j.ID)
	if last == nil {
		return time.Time{}
	}
	next, err := j.Periodic.Next(time.Unix(0, last.Launch))
	if err != nil {
		return time.Time{}
	}
	return next
}

// overlap explains that the launches of a periodic job are skipped, because a child of it has not ended.
func (x *jobExplainer) overlap(j *structs.Job) []*structs.Reason {
	if !j.IsPeriodic() || !j.Periodic.Enabled || !j.Periodic.ProhibitOverlap || !state.HasLiveChild(x.tx, j) {
		return nil
	}

	r := reason("the launches of job %s are skipped until its last child has ended (prohibit_overlap)", j.ID)
	if next := x.nextLaunch(j); !next.IsZero() {
		addPassing(r, "; the next one is due ", x.until(next.UnixNano()))
	}

	var children sample
	for child := range state.ChildJobs(x.tx, j.Namespace, j.ID) {
		switch {
		case child.Status == structs.JobDead:
		case children.full():
			children.rest++
		default:
			c := reason("child %s is %s", child.ID, child.Status)
			c.Remedy = command(j.Namespace, "job why", child.ID) +
				"; to end it: " + command(j.Namespace, "job stop", child.ID)
			children.add(c)
		}
	}

	r.Because = children.list("children")
	return []*structs.Reason{r}
}

// liveChildren describes the number of children that have not ended, "" if all have.
func (x *jobExplainer) liveChildren(j *structs.Job) string {
	live := 0
	for child := range state.ChildJobs(x.tx, j.Namespace, j.ID) {
		if child.Status != structs.JobDead {
			live++
		}
	}

	if live == 0 {
		return ""
	}

	return fmt.Sprintf("; children that have not ended: %d", live)
}

// dispatchCommand is the command that dispatches a job with the values that it requires.
func dispatchCommand(j *structs.Job) string {
	p := j.ParameterizedJob
	verb := "job dispatch"
	for _, key := range p.MetaRequired {
		verb += " -meta " + structs.ShellWord(key) + "=VALUE"
	}
	if p.Payload == structs.PayloadRequired {
		return command(j.Namespace, verb, j.ID, "FILE")
	}
	return command(j.Namespace, verb, j.ID)
}
