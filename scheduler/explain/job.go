package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// jobExplainer collects the reasons of one job. Its explainer explains the nodes, volumes, plugins and
// allocations that they name.
type jobExplainer struct {
	*explainer
}

func newJobExplainer(v View, j *structs.Job) *jobExplainer {
	x := newExplainer(v)
	x.job = j
	return &jobExplainer{x}
}

// Job explains why a job does not run as its specification demands. It reports whether something waits; if
// nothing does, the reasons say so.
func Job(v View, j *structs.Job) (waits bool, reasons []*structs.Reason) {
	x := newJobExplainer(v, j)
	if j.Stop {
		reasons = x.stoppedJob(j, "stopped")
	} else {
		// The order goes from the job to its allocations: a reason marks the allocations that it explains, and the
		// ones behind it leave them out.
		reasons = slices.Concat(
			x.deployment(j),
			x.evaluations(j),
			x.blockedGroups(j),
			x.displaced(j),
			x.emptyPlaces(j),
			x.failures(j),
			x.allocations(j),
			x.drains(j),
			x.overlap(j),
			x.ending(j))
	}

	if len(reasons) == 0 {
		// It knows no cause, so it speaks only when no other one does.
		reasons = x.missing(j)
	}

	if len(reasons) > 0 {
		return true, reasons
	}

	return false, []*structs.Reason{x.healthyJob(j)}
}

// healthyJob is the reason of a job that waits for nothing.
func (x *jobExplainer) healthyJob(j *structs.Job) *structs.Reason {
	running := 0
	for a := range state.LiveAllocsByJob(x.tx, j.Namespace, j.ID) {
		if a.ClientStatus == structs.AllocRunning {
			running++
		}
	}

	switch {
	case j.Stop:
		r := reason("job %s is stopped, and none of its allocations runs", j.ID)
		r.Remedy = "to run it again: " + command(j.Namespace, "job run", "FILE")
		return r
	case j.StartsOthers():
		return x.parentJob(j)
	case demanded(j) == 0:
		return reason("job %s waits for nothing: its groups have the count 0", j.ID)
	case running == 0 && j.Finite():
		return reason("job %s waits for nothing: its allocations are complete", j.ID)
	case running == 0 && j.PerNode():
		return reason("job %s waits for nothing: no node has to run it now", j.ID)
	}

	return reason("job %s waits for nothing; running: %s", j.ID, count(running, "allocation"))
}

// demanded returns the number of allocations that the groups of a job demand. For a job of every node it is
// the number on each of them.
func demanded(j *structs.Job) (total int) {
	for _, g := range j.TaskGroups {
		total += g.Count
	}
	return total
}

// missing explains the groups of a service with fewer allocations than they demand, although no evaluation is
// to place the others.
func (x *jobExplainer) missing(j *structs.Job) (reasons []*structs.Reason) {
	if j.Stop || j.Type != structs.JobService {
		return nil
	}

	have := map[string]int{}
	for a := range state.LiveAllocsByJob(x.tx, j.Namespace, j.ID) {
		have[a.TaskGroup]++
	}

	for _, g := range j.TaskGroups {
		if have[g.Name] < g.Count {
			r := reason("group %s has %d of %s, and no evaluation is to place the others", g.Name,
				have[g.Name], count(g.Count, "allocation"))
			r.Remedy = command(j.Namespace, "job eval", j.ID)
			reasons = append(reasons, r)
		}
	}

	return list(reasons, "groups")
}

func (x *explainer) alloc(a *structs.Allocation, what string) *structs.Reason {
	return reason("allocation %s (%s) on node %s %s", structs.ShortID(a.ID), a.Name, x.nodeName(a.NodeID),
		what)
}

// evaluations explains the evaluations that have not been processed, and one that failed after all others.
func (x *jobExplainer) evaluations(j *structs.Job) []*structs.Reason {
	var pending []*structs.Reason
	var newest *structs.Evaluation
	replacing := map[string]bool{}
	needed := map[string]bool{} // of the evaluations that allocations name
	for a := range state.AllocsByJob(x.tx, j.Namespace, j.ID) {
		id := a.FollowupEvalID
		replacing[id] = replacing[id] || a.ClientStatus == structs.AllocFailed
		needed[id] = needed[id] || a.IsUnknown() || a.ClientTerminal()
	}

	for e := range state.EvalsByJob(x.tx, j.Namespace, j.ID) {
		if newest == nil || e.ModifyIndex > newest.ModifyIndex {
			newest = e
		}

		need, named := needed[e.ID]
		idle := named && !need && e.WaitUntil > x.now.UnixNano() // the node of an allocation is back
		if e.Status == structs.EvalPending && !idle {
			pending = append(pending, x.pendingEval(j, e, replacing))
		}
	}

	// An evaluation after it has done what the failed one did not.
	if newest != nil && newest.Status == structs.EvalFailed {
		r := reason("evaluation %s failed: %s", structs.ShortID(newest.ID), newest.StatusDescription)
		r.Remedy = command(j.Namespace, "job eval", j.ID)
		pending = append(pending, r)
	}

	return list(pending, "evaluations")
}

// pendingEval explains an evaluation. replacing has the IDs of evaluations that replace failed allocations.
func (x *jobExplainer) pendingEval(
	j *structs.Job, e *structs.Evaluation, replacing map[string]bool,
) *structs.Reason {
	id := structs.ShortID(e.ID)
	switch {
	case e.WaitUntil > x.now.UnixNano():
		r := reason("evaluation %s is due %s (%s)", id, x.until(e.WaitUntil), e.TriggeredBy)
		switch e.TriggeredBy {
		case structs.TriggerScheduled:
			r.Remedy = x.hastenRemedy(j, e, replacing)
		case structs.TriggerRollingUpdate:
			r.Because = x.batches(j)
		}

		return r
	case state.SchedulerConfig(x.tx).PauseEvalBroker:
		r := reason("evaluation %s is pending, because the evaluations of the cluster are paused", id)
		r.Remedy = "berth operator scheduler set-config -pause-eval-broker=false"
		return r
	}

	r := reason("evaluation %s is pending: %s", id, cmp.Or(e.StatusDescription, again[e.Again]))
	r.Remedy = "if this lasts, see the log of the leader: berth server members"
	return r
}

// again describes the values of structs.Evaluation.Again.
var again = map[string]string{
	"":                  "the leader has not processed it yet",
	structs.EvalMore:    "one plan cannot place all its allocations, and the next one follows",
	structs.EvalWoken:   "there is something new for which it has waited",
	structs.EvalChanged: "its inputs have changed since its plan was made",
}

// blockedGroups explains the groups without a place.
func (x *jobExplainer) blockedGroups(j *structs.Job) (reasons []*structs.Reason) {
	e := state.BlockedEval(x.tx, j.Namespace, j.ID)
	if e == nil {
		return nil
	}

	for _, name := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		x.group = name
		m := e.FailedTGAllocs[name]
		missing := max(1, e.QueuedAllocations[name], m.CoalescedFailures+1)
		r := reason("group %s waits for a place for %s", name, count(missing, "allocation"))
		for _, rejection := range withoutRepeats(m.Rejections) {
			r.Because = append(r.Because, x.rejection(j, j.Group(name), rejection))
		}

		r.Because = append(list(r.Because, "reasons"), x.holders(j, j.Group(name), m)...)
		if len(r.Because) == 0 {
			r.Because = []*structs.Reason{x.noNode()}
		}

		reasons = append(reasons, r)
	}

	x.group = ""
	return reasons
}

// withoutRepeats joins the rejections by the eligibility of nodes: the nodes are named behind them.
func withoutRepeats(all []*structs.PlacementRejection) (some []*structs.PlacementRejection) {
	var joined *structs.PlacementRejection
	for _, p := range all {
		switch {
		case p.Filter != eligibilityFilter:
			some = append(some, p)
		case joined == nil:
			c := *p
			joined = &c
			some = append(some, joined)
		default:
			joined.Nodes += p.Nodes
			joined.Reason += ", " + p.Reason
		}
	}

	return some
}

// rejection explains why one filter rejected nodes.
func (x *jobExplainer) rejection(
	j *structs.Job, g *structs.TaskGroup, p *structs.PlacementRejection,
) *structs.Reason {
	r := reason("the filter %s rejects %s: %s", p.Filter, count(p.Nodes, "node"), p.Reason)
	if p.Nodes == 0 {
		r.Text = fmt.Sprintf("the filter %s rejects all nodes: %s", p.Filter, p.Reason)
	}

	r.Remedy = remedyOf(p.Filter, j, g, x.tx)
	gone := x.placelessVolumes(j, g)
	switch {
	case p.Filter == eligibilityFilter && len(gone) > 0:
		r.Because = gone // other nodes do not help
	case p.Filter == eligibilityFilter:
		r.Because = x.notReady(j, p.Nodes)
	case g == nil:
	case p.Filter == volumeFilter:
		r.Because = list(x.groupVolumes(j, g), "reasons")
		if p.Nodes == 0 && x.onlyVolumeFails(j, g) { // the reason behind it has the error
			r.Text = fmt.Sprintf("the filter %s rejects all nodes", p.Filter)
		}
	case p.Filter == pluginFilter:
		r.Because = list(x.groupPlugins(j, g), "reasons")
	case p.Filter == limitFilter:
		r.Because = x.limitHolders(j, g)
		return r
	}

	if len(r.Because) > 0 && p.Filter != pluginFilter {
		r.Remedy = "" // those behind it have more exact ones
	}

	return r
}

// placelessVolumes explains the volumes of a group that no node reaches any more.
func (x *jobExplainer) placelessVolumes(j *structs.Job, g *structs.TaskGroup) (reasons []*structs.Reason) {
	if g == nil {
		return nil
	}
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := csi.Volume(x.tx, j.Namespace, g.Volumes[alias].VolumeID(0, ""))
		if v != nil && g.Volumes[alias].NeedsClaim() {
			reasons = append(reasons, x.placeless(v)...)
		}
	}
	return reasons
}

// groupPlugins explains the instances that are not healthy of the plugins of a group's volumes.
func (x *jobExplainer) groupPlugins(j *structs.Job, g *structs.TaskGroup) (reasons []*structs.Reason) {
	seen := map[string]bool{}
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := csi.Volume(x.tx, j.Namespace, g.Volumes[alias].VolumeID(0, ""))
		if v != nil && !seen[v.PluginID] {
			seen[v.PluginID] = true
			reasons = append(reasons, x.instances(v.PluginID)...)
		}
	}
	return reasons
}

// groupVolumes explains the volumes of a group, with per_alloc the first ones without an allocation.
func (x *jobExplainer) groupVolumes(j *structs.Job, g *structs.TaskGroup) (reasons []*structs.Reason) {
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		request := g.Volumes[alias]
		if !request.NeedsClaim() {
			continue
		}

		indexes := []int{0} // of a volume that the allocations share
		if request.PerAlloc {
			indexes = x.missingIndexes(j, g)
			indexes = indexes[:min(len(indexes), mostListed)]
		}

		for _, i := range indexes {
			c := request.Claim(j.Namespace, i, "")
			if request.Class == "" || csi.Volume(x.tx, c.Namespace, c.VolumeID) != nil {
				reasons = append(reasons, x.groupVolume(c)...)
			} // else the servers create it once the allocation has a node
		}
	}

	return reasons
}

// missingIndexes returns the indexes of a group that no allocation has. If there is none, an update finds no
// place: then it returns the indexes that no allocation of the job's version has.
func (x *jobExplainer) missingIndexes(j *structs.Job, g *structs.TaskGroup) (missing []int) {
	taken := map[int]bool{}
	updated := map[int]bool{}
	for a := range state.LiveAllocsByJob(x.tx, j.Namespace, j.ID) {
		if a.TaskGroup == g.Name && !a.Terminal() {
			taken[a.Index()] = true
			updated[a.Index()] = updated[a.Index()] || a.JobVersion == j.Version
		}
	}

	var outdated []int
	for i := range g.Count {
		switch {
		case !taken[i]:
			missing = append(missing, i)
		case !updated[i]:
			outdated = append(outdated, i)
		}
	}

	if len(missing) == 0 {
		return outdated
	}

	return missing
}

// groupVolume explains why a group cannot make a claim: the volume does not exist, is not made for its modes,
// waits itself, or is in use by others that exclude the claim.
func (x *jobExplainer) groupVolume(c *structs.CSIClaim) []*structs.Reason {
	v := csi.Volume(x.tx, c.Namespace, c.VolumeID)
	if v == nil {
		r := reason("there is no volume %s in namespace %s", c.VolumeID, c.Namespace)
		r.Remedy = command(c.Namespace, "volume create", "FILE") + ", or " +
			command(c.Namespace, "volume register", "FILE")
		return []*structs.Reason{r}
	}

	class := c.Class()
	if !v.Capable(class) {
		r := reason("volume %s is not made for %s with %s", v.ID, class.AccessMode, class.AttachmentMode)
		r.Remedy = "change access_mode or attachment_mode in the volume block of the group; what it is made for: " +
			command(c.Namespace, "volume status", v.ID)
		return []*structs.Reason{r}
	}

	waits, reasons := x.volume(v)

	// A volume that waits itself is the nearer cause. Its users matter when it is ready.
	if waits {
		return reasons
	}

	return x.users(v, class.Conflicts)
}
