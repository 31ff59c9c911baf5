package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/scheduler/drainer"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// deployment explains a rollout that has not ended, or that failed.
func (x *jobExplainer) deployment(j *structs.Job) []*structs.Reason {
	d := state.LatestDeployment(x.tx, j.Namespace, j.ID)
	if d == nil || d.JobVersion != j.Version {
		return nil
	}

	id := structs.ShortID(d.ID)
	switch d.Status {
	case structs.DeploymentPaused:
		r := reason("deployment %s of version %d is paused", id, d.JobVersion)
		r.Remedy = command(j.Namespace, "deployment resume", id)
		return []*structs.Reason{r}
	case structs.DeploymentFailed:
		r := reason("deployment %s of version %d failed: %s", id, d.JobVersion, d.StatusDescription)
		r.Remedy = "mend the job and run it again"
		if j.Version > 0 {
			r.Remedy += ", or: " + command(j.Namespace, "job revert", j.ID, "VERSION")
		}

		r.Because = x.unhealthy(d)
		if len(r.Because) == 0 {
			// No allocation is unhealthy, so it failed for what did not come in time.
			r.Because = missedAims(d)
		}

		return []*structs.Reason{r}

	case structs.DeploymentRunning:
		r := reason("deployment %s of version %d is not complete", id, d.JobVersion)
		r.Because = x.deploymentGroups(j, d)
		if len(r.Because) == 0 {
			r.Remedy = "if this lasts: " + command(j.Namespace, "deployment status", id)
		}

		return []*structs.Reason{r}
	}

	return nil
}

// missedAims tells how far the groups of a deployment came that did not reach their aim.
func missedAims(d *structs.Deployment) (reasons []*structs.Reason) {
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		s := d.TaskGroups[name]
		if s.HealthyAllocs >= s.DesiredTotal {
			continue
		}

		placed := min(s.PlacedAllocs, s.DesiredTotal) // it counts also allocations that were replaced
		text := fmt.Sprintf("group %s had %d of %d placed, %d of them healthy", name, placed,
			s.DesiredTotal, s.HealthyAllocs)
		if s.AwaitsPromotion() {
			text += ", and its canaries were not promoted"
		}

		reasons = append(reasons, reason("%s", text))
	}

	return reasons
}

// batches explains how far the update of a job of every node has come.
func (x *jobExplainer) batches(j *structs.Job) (reasons []*structs.Reason) {
	for _, g := range j.TaskGroups {
		total := 0
		done := 0
		for a := range state.LiveAllocsByJob(x.tx, j.Namespace, j.ID) {
			switch {
			case a.TaskGroup != g.Name:
				continue
			case a.JobVersion == j.Version:
				done++
			}

			total++
		}

		if done < total && g.Update.Rolls() {
			r := reason("group %s replaces %s every %s; %d of %d have version %d", g.Name,
				count(g.Update.MaxParallel, "allocation"), g.Update.Stagger, done, total, j.Version)
			r.Remedy = "to replace all at once, run the job with max_parallel = 0 in its update block"
			reasons = append(reasons, r)
		}
	}

	return reasons
}

// deploymentGroups explains each group of a deployment that has not reached its aim.
func (x *jobExplainer) deploymentGroups(j *structs.Job, d *structs.Deployment) (reasons []*structs.Reason) {
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		s := d.TaskGroups[name]
		canaries := state.HealthyCanaries(x.tx, s)
		switch {
		// auto_promote promotes them once all groups have healthy ones.
		case s.AwaitsPromotion() && s.Waits(canaries) && d.AutoPromotes():
		case s.AwaitsPromotion() && s.Waits(canaries):
			r := reason("group %s has its healthy canaries (%d), and waits for their promotion",
				name, s.DesiredCanaries)
			r.Remedy = promotion(d, name)
			reasons = append(reasons, r)

		case !s.Waits(canaries):
			r := reason("group %s has %s%s", name, progress(d, s, canaries), x.pace(j, d, name))
			if !s.RequireProgressBy.IsZero() {
				addPassing(r, "; without progress it fails ", x.until(s.RequireProgressBy.UnixNano()))
			}

			r.Because = x.notHealthy(d, name)
			if len(r.Because) == 0 {
				r.Remedy = command(d.Namespace, "deployment status", structs.ShortID(d.ID))
			}

			reasons = append(reasons, r)
		}
	}

	return reasons
}

// promotion is the command that promotes the canaries of a group. Those of other groups may not be healthy.
func promotion(d *structs.Deployment, group string) string {
	args := []string{structs.ShortID(d.ID)}
	if len(d.TaskGroups) > 1 {
		args = []string{"-group", group, structs.ShortID(d.ID)}
	}
	return command(d.Namespace, "deployment promote", args...)
}

// progress describes how far a group is from its aim. Before a promotion its canaries are the aim.
func progress(d *structs.Deployment, s *structs.DeploymentState, healthyCanaries int) string {
	if !s.AwaitsPromotion() {
		return fmt.Sprintf("%d of %d allocations of the version healthy, %d unhealthy",
			s.HealthyAllocs, s.DesiredTotal, s.UnhealthyAllocs)
	}

	next := "promoted"
	if d.AutoPromotes() {
		next = "healthy (auto_promote)"
	}

	return fmt.Sprintf("%d of %d canaries healthy, %d unhealthy, and goes on when they are %s",
		healthyCanaries, s.DesiredCanaries, s.UnhealthyAllocs, next)
}

// pace describes how many older allocations of a group are replaced at a time, "" if there are none.
func (x *jobExplainer) pace(j *structs.Job, d *structs.Deployment, group string) string {
	g := j.Group(group)
	if g == nil || !g.Update.Rolls() || d.Group(group).AwaitsPromotion() {
		return ""
	}

	older := 0
	for a := range state.LiveAllocsByJob(x.tx, j.Namespace, j.ID) {
		if a.TaskGroup == group && a.JobVersion != d.JobVersion {
			older++
		}
	}

	switch {
	case older == 0:
		return ""
	case g.HoldsVolumesAlone():
		return fmt.Sprintf("; %s left, replaced one at a time because each has a volume for itself",
			count(older, "older allocation"))
	}

	return fmt.Sprintf("; %s left, replaced at most %d at a time (max_parallel)",
		count(older, "older allocation"), g.Update.MaxParallel)
}

// notHealthy explains the allocations of a group of a deployment that are not healthy.
func (x *jobExplainer) notHealthy(d *structs.Deployment, group string) []*structs.Reason {
	var all sample
	for a := range state.LiveAllocsByJob(x.tx, d.Namespace, d.JobID) {
		switch {
		case a.DeploymentID != d.ID, a.TaskGroup != group, a.DeploymentStatus.IsHealthy():
		case all.full():
			all.rest++
		default:
			all.add(x.unhealthyAlloc(a))
		}
	}

	return all.list("allocations")
}

// unhealthy explains the allocations because of which a deployment has failed.
func (x *jobExplainer) unhealthy(d *structs.Deployment) []*structs.Reason {
	var all sample
	for a := range state.AllocsByJob(x.tx, d.Namespace, d.JobID) {
		switch {
		case a.DeploymentID != d.ID, !a.DeploymentStatus.IsUnhealthy():
		case all.full():
			all.rest++
		default:
			all.add(x.unhealthyAlloc(a))
		}
	}

	return all.list("unhealthy allocations")
}

// The filters that reject a node for what the group itself may have there, besides resources.
const (
	hostVolumeFilter = "host-volume"
	hostsFilter      = "distinct-hosts"
)

// ownCanary explains that canaries wait for what the older allocations of their group have, which stay until
// the canaries are promoted. It returns nil if they do not.
func (s *search) ownCanary(m *structs.AllocMetric) *structs.Reason {
	j := s.job
	d := state.ActiveDeployment(s.tx, j.Namespace, j.ID)
	if d == nil || d.JobVersion != j.Version || !d.Group(s.group.Name).AwaitsPromotion() {
		return nil
	}

	// One is enough: on its node a canary waits for the promotion, and the promotion for the canary.
	for n := range s.candidates(j) {
		for a := range state.LiveAllocsByNode(s.tx, n.ID) {
			older := a.Namespace == j.Namespace && a.JobID == j.ID && a.TaskGroup == s.group.Name &&
				a.JobVersion != j.Version
			if !older {
				continue
			}

			if thing := s.thingOf(a, m); thing != "" {
				r := s.alloc(a, "has "+thing+", which a canary of the group needs, and it stays until the canaries are promoted")
				r.Remedy = "add a node for the canaries, or run the job with canary = 0 after: " +
					command(j.Namespace, "deployment fail", structs.ShortID(d.ID))
				return r
			}
		}
	}

	return nil
}

// thingOf returns what an older allocation of the group has on its node that a new one demands for itself, ""
// if the scheduler has not missed it.
func (s *search) thingOf(a *structs.Allocation, m *structs.AllocMetric) string {
	rejects := func(filter string) bool {
		return slices.ContainsFunc(m.Rejections, func(r *structs.PlacementRejection) bool {
			return r.Filter == filter
		})
	}

	// Each thing counts only if the scheduler has named its lack. A node may have it and reject for another
	// reason.
	if rejects(hostsFilter) {
		return "its node for itself (distinct_hosts)"
	}

	if old := state.JobOf(s.tx, a); rejects(hostVolumeFilter) && old != nil {
		if name := storage.HostVolumeConflict(s.group, old.Group(a.TaskGroup)); name != "" {
			return "host volume " + name
		}
	}

	for _, demand := range s.group.PortDemands() {
		same := func(p structs.AllocatedPort) bool { return p.Value == demand.Value }
		if s.ports && demand.Static() && slices.ContainsFunc(a.Ports, same) {
			return fmt.Sprintf("port %d", demand.Value)
		}
	}

	for _, groups := range a.Devices {
		for _, d := range groups {
			if s.devices && s.demands(d) {
				return fmt.Sprintf("%s of %s", count(len(d.DeviceIDs), "device"), d.ID())
			}
		}
	}

	return ""
}

// DeletedJob explains which allocations of a job without a row have not ended, or still hold volumes. It
// reports whether there are any.
func DeletedJob(v View, namespace, id string) (waits bool, reasons []*structs.Reason) {
	// The allocations outlive the row. This one has what the explainers read of a stopped job.
	j := &structs.Job{Namespace: structs.NamespaceOr(namespace), ID: id, Stop: true}
	x := newJobExplainer(v, j)
	reasons = x.stoppedJob(j, "deleted")
	return len(reasons) > 0, reasons
}

// stoppedJob explains which allocations of a job have not ended, or still hold volumes. The job is stopped or
// deleted.
func (x *jobExplainer) stoppedJob(j *structs.Job, stopped string) []*structs.Reason {
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
	return append([]*structs.Reason{r}, held...)
}

// ending explains the allocations of a job that are to stop and have not ended, and the ended ones that still
// hold volumes, as far as no reason before has named them.
func (x *jobExplainer) ending(j *structs.Job) []*structs.Reason {
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
func (x *jobExplainer) heldVolumes(j *structs.Job) []*structs.Reason {
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
func (x *explainer) heldClaim(c *structs.CSIClaim) *structs.Reason {
	return x.endedClaim(c, fmt.Sprintf("the claim of allocation %s on volume %s at node %s",
		structs.ShortID(c.AllocID), c.VolumeID, x.nodeName(c.NodeID)))
}

// endingAlloc explains why an allocation that is to stop still runs.
func (x *explainer) endingAlloc(a *structs.Allocation) *structs.Reason {
	x.shown[a.ID] = true
	what := cmp.Or(newestEvent(a), a.ClientDescription, "its tasks have not ended yet")
	r := x.alloc(a, "is stopping: "+what)

	// A node that is down reports no end, however long one waits for its tasks.
	if state.Node(x.tx, a.NodeID).Lost() {
		r.Because = []*structs.Reason{x.nodeDown(a.NodeID)}
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
