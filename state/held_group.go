package state

import "berth/structs"

// Deploys reports whether deployments track the updates of a group. Allocations that have a volume for
// themselves are replaced one at a time whatever max_parallel is.
func Deploys(j *structs.Job, g *structs.TaskGroup) bool {
	return j.Type == structs.JobService &&
		(g.Update.Rolls() || g.Update != nil && g.HoldsVolumesAlone())
}

// DeploymentOfVersion returns the deployment of the job's version: one that is active or has failed, nil if
// there is none or it has succeeded.
func DeploymentOfVersion(tx Reader, j *structs.Job) *structs.Deployment {
	d := LatestDeployment(tx, j.Namespace, j.ID)
	if d == nil || d.JobVersion != j.Version || !d.Active() && d.Status != structs.DeploymentFailed {
		return nil
	}
	return d
}

// HeldGroups are the groups of a job that its deployment holds: while it awaits the promotion of their
// canaries, while it is paused and after it has failed, they do not grow. Only successors of allocations that
// were taken away come. The scheduler and the drains of nodes decide by the same methods on them: a drain
// waits for no allocation that the scheduler does not place.
type HeldGroups struct {
	Job        *structs.Job
	Deployment *structs.Deployment // see DeploymentOfVersion; nil: it holds no group
	uses       CanaryUses          // of canaries that await their promotion; looked up once
}

// Holds reports whether a group may neither grow nor replace older allocations now.
func (h *HeldGroups) Holds(g *structs.TaskGroup) bool {
	d := h.Deployment
	return d != nil && Deploys(h.Job, g) &&
		(d.Status != structs.DeploymentRunning || d.Group(g.Name).AwaitsPromotion())
}

// Misses returns the allocations of a held group that were lost or moved, found no place at that time and are
// placed again, by their index. These are the newest of each index that is not taken: of the job's version,
// and of the newest version before it. Canaries do not count.
func (h *HeldGroups) Misses(
	tx Reader, g *structs.TaskGroup, taken map[int]bool,
) (missed []*structs.Allocation) {
	newest := map[int]*structs.Allocation{}
	var older uint64
	for a := range AllocsByJob(tx, h.Job.Namespace, h.Job.ID) {
		index := a.Index()
		if a.TaskGroup != g.Name || a.DeploymentStatus.IsCanary() || a.CreateIndex < h.Job.CreateIndex {
			continue
		}

		if newest[index] == nil || a.CreateIndex > newest[index].CreateIndex {
			newest[index] = a
		}

		if a.JobVersion != h.Job.Version {
			older = max(older, a.JobVersion)
		}
	}

	for index := range g.Count {
		a := newest[index]
		switch {
		// The group does not grow, whatever indexes are free.
		case len(taken)+len(missed) >= g.Count:
			return missed
		// There was none, the index is taken, it has its successor, or the servers have not taken it away.
		case a == nil, taken[index], a.NextAllocation != "", !a.ServerTerminal():
		// It is of a version that was replaced before, or it would wait for the canaries' promotion.
		case a.JobVersion != h.Job.Version && (a.JobVersion != older || h.excludes(tx, a)):
		default:
			missed = append(missed, a)
		}
	}

	return missed
}

// MissedCanaries returns how many canaries of a group are to be placed if it has some: live ones, or ended
// ones that keep their place.
func (h *HeldGroups) MissedCanaries(g *structs.TaskGroup, has int) int {
	s := h.Deployment.Group(g.Name)
	if !s.AwaitsPromotion() || h.Deployment.Status != structs.DeploymentRunning {
		return 0
	}
	return max(0, s.DesiredCanaries-has)
}

// Former returns the older version of the job in which the successor of an allocation is placed, nil if the
// version is gone.
func (h *HeldGroups) Former(tx Reader, a *structs.Allocation) *structs.Job {
	old := JobOf(tx, a)
	if old == nil || old.Group(a.TaskGroup) == nil || old.Type != h.Job.Type {
		return nil
	}
	return old
}

func (h *HeldGroups) excludes(tx Reader, a *structs.Allocation) bool {
	former := h.Former(tx, a)
	return former != nil && h.ExcludesCanaries(former.Group(a.TaskGroup), a.Index())
}

// ExcludesCanaries reports whether an allocation of a group in an older version would use volumes in a way
// that excludes canaries which await their promotion. It waits for the promotion, and so they would wait for
// each other. An allocation that ran when the version was registered does not (CanaryConflict).
func (h *HeldGroups) ExcludesCanaries(former *structs.TaskGroup, index int) bool {
	if !h.Deployment.Active() {
		return false
	}
	if h.uses == nil {
		var groups []*structs.TaskGroup
		for _, group := range h.Job.TaskGroups {
			s := h.Deployment.Group(group.Name)
			if s == nil || s.AwaitsPromotion() { // the scheduler may begin the deployment of the group yet
				groups = append(groups, group)
			}
		}
		h.uses = NewCanaryUses(groups)
	}
	return h.uses.ExcludedBy(former.CSIUses(index, ""))
}
