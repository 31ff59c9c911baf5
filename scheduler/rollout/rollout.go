package rollout

import (
	"maps"
	"math"
	"slices"

	"berth/state"
	"berth/structs"
)

// Rollout is the deployment of the job's version in a plan. A job without deployments has none, nil.
type Rollout struct {
	Held  *state.HeldGroups // by the deployment
	Begun bool              // by the plan

	tx       state.Reader
	job      *structs.Job
	row      *structs.Deployment // nil: none
	deployed bool                // the job's version has, or had, a deployment

	settled []string // groups whose part of the deployment has reached its aim
	stalled []string // groups with an allocation of the deployment that has ended and is not replaced
}

// Find finds the deployment of the job's version, and the groups that it holds.
func Find(tx state.Reader, j *structs.Job) *Rollout {
	d := state.LatestDeployment(tx, j.Namespace, j.ID)
	r := &Rollout{
		tx:       tx,
		job:      j,
		row:      state.DeploymentOfVersion(tx, j),
		deployed: d != nil && d.JobVersion == j.Version,
	}
	r.Held = &state.HeldGroups{Job: j, Deployment: r.row}
	return r
}

// Deployment returns the deployment, nil if there is none.
func (r *Rollout) Deployment() *structs.Deployment {
	if r == nil {
		return nil
	}
	return r.row
}

// CountedBy returns the ID of the deployment that counts a placement of a group in a version of the job, ""
// if none does.
func (r *Rollout) CountedBy(version *structs.Job, group string) string {
	d := r.Deployment()
	if d == nil || version != r.job || !d.Active() || d.Group(group) == nil {
		return ""
	}
	return d.ID
}

// isOlder reports whether an allocation has an older version of the job.
func (r *Rollout) isOlder(a *structs.Allocation) bool {
	return a.JobVersion != r.job.Version
}

// SplitCanaries returns the canaries of the active deployment, the canaries of ended deployments and the
// other allocations.
func (r *Rollout) SplitCanaries(
	allocs []*structs.Allocation,
) (canaries, ended, others []*structs.Allocation) {
	d := r.row
	for _, a := range allocs {
		switch {
		case !a.DeploymentStatus.IsCanary():
			others = append(others, a)
		case d != nil && d.Active() && a.DeploymentID == d.ID:
			canaries = append(canaries, a)
		default:
			ended = append(ended, a)
		}
	}
	return canaries, ended, others
}

// Begin returns the state of a group in the deployment, nil if no deployment tracks the group. If the job's
// version has no deployment yet, it begins one, with the first allocation of the version and with the first
// update to it. Only updates of allocations that the count leaves need canaries.
func (r *Rollout) Begin(g *structs.TaskGroup, slots []Decision, priority int) *structs.DeploymentState {
	known := r.row.Group(g.Name)
	if known != nil || g.Count == 0 || r.row != nil && !r.Begun {
		return known
	}

	updates := 0
	changes := false
	begun := r.deployed
	surplus := firstSurplus(g, slots)
	for _, s := range slots {
		begun = begun || !r.isOlder(s.Alloc)
		changes = changes || s.Action == Update || s.Action == Refresh
		if s.Action == Update && s.Index < surplus {
			updates++
		}
	}

	if begun && !changes {
		return nil
	}

	added := &structs.DeploymentState{
		AutoRevert:       g.Update.AutoRevert,
		AutoPromote:      g.Update.AutoPromote,
		ProgressDeadline: g.Update.ProgressDeadline,
		DesiredTotal:     g.Count,
	}

	if updates > 0 && r.admitsCanaries(g) {
		added.DesiredCanaries = g.Update.Canary
	}

	if r.row == nil {
		r.row = r.newDeployment(priority)
		r.Held.Deployment = r.row
		r.Begun = true
	}

	r.row.TaskGroups[g.Name] = added
	r.row.StatusDescription = r.row.DefaultDescription()
	return added
}

// firstSurplus returns the index from which on the count of a group leaves no allocations.
func firstSurplus(g *structs.TaskGroup, slots []Decision) int {
	if g.HasPerAlloc() {
		return g.Count
	}
	var indexes []int
	for _, s := range slots {
		if s.Action != None {
			indexes = append(indexes, s.Index)
		}
	}
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	if len(indexes) <= g.Count {
		return math.MaxInt
	}
	return indexes[g.Count]
}

// admitsCanaries reports whether canaries of a group can get their volumes. A registration with others is
// rejected, but a rollback is not, and two requests at once may each pass the check without the other. Their
// version is rolled out without canaries.
func (r *Rollout) admitsCanaries(g *structs.TaskGroup) bool {
	return state.CanaryConflict(r.tx, r.job, []*structs.TaskGroup{g}) == ""
}

func (r *Rollout) newDeployment(priority int) *structs.Deployment {
	return &structs.Deployment{
		ID:                 structs.NewID(),
		Namespace:          r.job.Namespace,
		JobID:              r.job.ID,
		JobVersion:         r.job.Version,
		JobModifyIndex:     r.job.ModifyIndex,
		JobSpecModifyIndex: r.job.JobModifyIndex,
		JobCreateIndex:     r.job.CreateIndex,
		TaskGroups:         map[string]*structs.DeploymentState{},
		Status:             structs.DeploymentRunning,
		EvalPriority:       priority,
	}
}

// SetPace sets the number of allocations that the plan may replace by the new version: the size of the pace
// less the allocations that the group misses because of the update, and none beside an unhealthy one. It
// misses one at each empty place, and the allocations of the deployment whose health is not known or that
// have ended. One that has ended is no longer unhealthy when this plan replaces it: its successor's health is
// not known. The group misses a number of allocations that no decision is on.
func (r *Rollout) SetPace(p *Pace, slots []Decision, missing int) {
	p.absent += max(0, missing-len(p.empty))
	fresh := 0
	d := r.row
	for _, s := range slots {
		a := s.Alloc
		leaves := s.Action.isAbsent() // its successor counts if it has a place
		if leaves {
			p.absent++
		}

		switch {
		case d == nil || a.DeploymentID != d.ID || leaves:
		case a.DeploymentStatus.IsUnhealthy() && s.Action != Reschedule:
			return
		case !a.DeploymentStatus.IsHealthy() || a.ClientTerminal():
			fresh++
		}
	}

	p.left = max(0, p.Size-fresh-len(p.empty))
}

// CanaryIndexes returns indexes for canaries: first of the allocations that they are to replace, then free
// ones. An allocation that continues keeps its own, unless no other index has volumes. It returns none that
// is taken.
func (r *Rollout) CanaryIndexes(
	g *structs.TaskGroup, slots []Decision, taken map[int]bool, most int,
) (indexes []int) {
	used := maps.Clone(taken)
	add := func(index int) {
		if !used[index] && len(indexes) < most {
			used[index] = true
			indexes = append(indexes, index)
		}
	}

	stays := map[int]bool{}
	for _, s := range slots {
		if r.isOlder(s.Alloc) && s.Action != Refresh {
			add(s.Index)
		} else {
			stays[s.Index] = true
		}
	}

	for index := 0; len(indexes) < most; index++ {
		if index == g.Count && stays != nil && g.HasPerAlloc() {
			stays = nil
			index = 0
		}

		if !stays[index] {
			add(index)
		}
	}

	return indexes
}

// Settle records that a group has reached its aim, if its allocations all run the new version and are healthy
// in its deployment.
func (r *Rollout) Settle(group string, slots []Decision) {
	unsettled := slices.ContainsFunc(slots, func(s Decision) bool {
		return s.Action != Keep || r.isOlder(s.Alloc) || !s.Alloc.DeploymentStatus.IsHealthy()
	})
	if !unsettled {
		r.settled = append(r.settled, group)
	}
}

// Stall records that an allocation of a group has ended and is not replaced, if the deployment counts it.
func (r *Rollout) Stall(version *structs.Job, a *structs.Allocation) {
	if a.DeploymentID != "" && a.DeploymentID == r.CountedBy(version, a.TaskGroup) {
		r.stalled = append(r.stalled, a.TaskGroup)
	}
}

// Complete returns the update that ends the deployment if every group has reached its aim, nil if none does.
// It fails one without a deadline if a group has an allocation that has ended and is not replaced: no report
// of a node would end it.
func (r *Rollout) Complete() *structs.DeploymentStatusUpdate {
	d := r.row
	if d == nil || d.Status != structs.DeploymentRunning || r.Begun {
		return nil
	}

	update := &structs.DeploymentStatusUpdate{
		DeploymentID: d.ID,
		Status:       structs.DeploymentSuccessful,
		RowIndex:     d.ModifyIndex,
	}

	reached := true
	for _, g := range r.job.TaskGroups {
		s := d.Group(g.Name)
		if s == nil {
			continue
		}

		if s.ProgressDeadline == 0 && slices.Contains(r.stalled, g.Name) {
			update.Status = structs.DeploymentFailed
			update.StatusDescription = structs.DeploymentFailedByAlloc
		}

		reached = reached && slices.Contains(r.settled, g.Name) && !s.AwaitsPromotion()
	}

	if reached || update.Status == structs.DeploymentFailed {
		return update
	}
	return nil
}
