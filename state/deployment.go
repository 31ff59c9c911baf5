package state

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
)

// Deployment returns the deployment, nil if there is none.
func Deployment(tx Reader, id string) *structs.Deployment {
	return schema.Deployments.Get(tx, id)
}

// DeploymentsByJob yields a job's deployments, the newest first.
func DeploymentsByJob(tx Reader, ns, job string) iter.Seq[*structs.Deployment] {
	return schema.DeploymentsByJob.Scan(tx, ns, job)
}

// LatestDeployment returns the newest deployment of a job, nil if there is none.
func LatestDeployment(tx Reader, ns, job string) *structs.Deployment {
	return schema.DeploymentsByJob.First(tx, ns, job)
}

// ActiveDeployments yields the deployments that have not ended.
func ActiveDeployments(tx Reader) iter.Seq[*structs.Deployment] {
	return schema.ActiveDeployments.Scan(tx)
}

// ActiveDeployment returns the deployment of a job that has not ended, nil if there is none.
func ActiveDeployment(tx Reader, ns, job string) *structs.Deployment {
	return schema.ActiveDeployments.First(tx, ns, job)
}

// deploymentFailed reports whether the deployment of the job's current version has failed.
func deploymentFailed(tx Reader, j *structs.Job) bool {
	d := LatestDeployment(tx, j.Namespace, j.ID)
	return d != nil && d.JobVersion == j.Version && d.Status == structs.DeploymentFailed
}

// staleDeployment returns how the deployment of a plan has changed since the plan was made, and "" if it has
// not.
func staleDeployment(tx Reader, p *structs.Plan, e *structs.Evaluation) string {
	active := ActiveDeployment(tx, e.Namespace, e.JobID)

	// A job has one active deployment (checkDeployments), and the plan would begin a second one.
	if p.Deployment != nil && active != nil {
		return "the job has another deployment"
	}

	for _, u := range p.DeploymentUpdates {
		if !appliesTo(u, Deployment(tx, u.DeploymentID)) {
			return "its deployment has changed"
		}
	}

	for i, a := range p.Place {
		if i > 0 && a.DeploymentID == p.Place[i-1].DeploymentID {
			continue
		}

		d := Deployment(tx, a.DeploymentID)
		if d != nil && !d.Active() {
			return "its deployment is " + d.Status
		}
	}

	return ""
}

// appliesTo reports whether an update was decided for the present row of an active deployment. A RowIndex of
// 0 stands for any row.
func appliesTo(u *structs.DeploymentStatusUpdate, d *structs.Deployment) bool {
	return d != nil && d.Active() && (u.RowIndex == 0 || u.RowIndex == d.ModifyIndex)
}

// putDeployment stores the deployment that a plan begins.
func putDeployment(tx *WriteTx, planned *structs.Deployment, now int64) {
	d := planned.Copy()
	d.Namespace = structs.NamespaceOr(d.Namespace)
	d.CreateTime = now
	d.ModifyTime = now
	if Deployment(tx, d.ID) == nil {
		schema.Deployments.Put(tx, d)
	}
}

// changeDeployment stores an edited copy of a deployment and returns it.
func changeDeployment(
	tx *WriteTx, d *structs.Deployment, now int64, edit func(*structs.Deployment),
) *structs.Deployment {
	d = d.Copy()
	edit(d)

	// The times come from several servers, whose clocks differ. That of a row does not go back.
	d.ModifyTime = max(d.ModifyTime, now)
	schema.Deployments.Put(tx, d)
	return d
}

// cancelDeployments ends the deployment of an older version of a job.
func cancelDeployments(tx *WriteTx, j *structs.Job, now int64) {
	d := ActiveDeployment(tx, j.Namespace, j.ID)
	if d == nil {
		return
	}
	why := structs.DeploymentOfOldVersion
	if j.Stop {
		why = structs.DeploymentOfStoppedJob
	}
	changeDeployment(tx, d, now, func(d *structs.Deployment) {
		d.Status = structs.DeploymentCancelled
		d.StatusDescription = why
	})
}

// dropDeployments deletes the deployments of a version of a job.
func dropDeployments(tx *WriteTx, version *structs.Job) {
	for d := range DeploymentsByJob(tx, version.Namespace, version.ID) {
		if d.JobVersion == version.Version && !d.Active() {
			schema.Deployments.Delete(tx, d)
		}
	}
}

// deploymentCount is the part of an allocation in the counts of its deployment.
type deploymentCount struct{ placed, healthy, unhealthy int }

// deploymentCountOf counts a healthy allocation only while it is to run. An unhealthy one counts also after
// its end, because the update has failed with it.
func deploymentCountOf(a *structs.Allocation) deploymentCount {
	c := deploymentCount{placed: 1}
	switch {
	case a.DeploymentStatus.IsUnhealthy():
		c.unhealthy = 1
	case a.DeploymentStatus.IsHealthy() && !a.Terminal() && !a.IsUnknown():
		c.healthy = 1
	}
	return c
}

func (c deploymentCount) addTo(s *structs.DeploymentState) {
	s.PlacedAllocs += c.placed
	s.HealthyAllocs += c.healthy
	s.UnhealthyAllocs += c.unhealthy
}

func (c deploymentCount) minus(o deploymentCount) deploymentCount {
	return deploymentCount{c.placed - o.placed, c.healthy - o.healthy, c.unhealthy - o.unhealthy}
}

// isCounted reports whether an active deployment counts the allocation.
func isCounted(tx Reader, a *structs.Allocation) bool {
	d := Deployment(tx, a.DeploymentID)
	return d != nil && d.Active()
}

// IsDeployed reports whether an active deployment needs the row of an ended allocation: the scheduler reads
// all but the ones it has replaced. A canary stays, because the deployment lists it.
func IsDeployed(tx Reader, a *structs.Allocation) bool {
	replaced := a.NextAllocation != "" && !a.DeploymentStatus.IsCanary()
	return isCounted(tx, a) && !replaced
}

// uncountReaped takes an ended allocation, which is deleted, from the counts of its deployment.
func uncountReaped(tx *WriteTx, a *structs.Allocation) {
	d := Deployment(tx, a.DeploymentID)
	if d == nil || !d.Active() || d.Group(a.TaskGroup) == nil {
		return
	}
	changeDeployment(tx, d, d.ModifyTime, func(d *structs.Deployment) {
		deploymentCount{}.minus(deploymentCountOf(a)).addTo(d.TaskGroups[a.TaskGroup])
	})
}

// recountDeployments updates the counts of the deployment of an allocation that takes the place of old, nil
// for a new one.
func recountDeployments(tx *WriteTx, old, a *structs.Allocation) {
	if a.DeploymentID == "" || !isCounted(tx, a) {
		return // old's deployment has ended before a's began
	}
	was := deploymentCount{}
	if old != nil && old.DeploymentID == a.DeploymentID {
		was = deploymentCountOf(old)
	}
	change := deploymentCountOf(a).minus(was)
	d := Deployment(tx, a.DeploymentID)
	if change == (deploymentCount{}) || d.Group(a.TaskGroup) == nil {
		return
	}
	changeDeployment(tx, d, a.ModifyTime, func(d *structs.Deployment) { countInGroup(d, a, change) })
}

// countPlaced updates the counts of the deployments of new allocations, each deployment once.
func countPlaced(tx *WriteTx, placed []*structs.Allocation) {
	byDeployment := map[string][]*structs.Allocation{}
	for _, a := range placed {
		if a.DeploymentID != "" {
			byDeployment[a.DeploymentID] = append(byDeployment[a.DeploymentID], a)
		}
	}

	// The deployments are independent of each other, so their order does not matter.
	for id, all := range byDeployment {
		d := Deployment(tx, id)
		all = slices.DeleteFunc(all, func(a *structs.Allocation) bool { return d.Group(a.TaskGroup) == nil })
		if len(all) == 0 || !d.Active() {
			continue
		}

		changeDeployment(tx, d, all[0].ModifyTime, func(d *structs.Deployment) {
			for _, a := range all {
				countInGroup(d, a, deploymentCountOf(a))
			}
		})
	}
}

// countInGroup adds a change to the counts of the group of an allocation. The first allocation of a group,
// each that becomes healthy, and the loss of a healthy one give the group more time.
func countInGroup(d *structs.Deployment, a *structs.Allocation, change deploymentCount) {
	s := d.TaskGroups[a.TaskGroup]
	change.addTo(s)
	if change.placed > 0 && a.DeploymentStatus.IsCanary() {
		s.PlacedCanaries = append(s.PlacedCanaries, a.ID)
	}
	if change.healthy > 0 || s.RequireProgressBy.IsZero() || lostHealthy(a, change) {
		extendDeadline(d, s, a.ModifyTime)
	}
}

// lostHealthy reports whether a change takes a healthy allocation from its group without its fault: its node
// is lost, or the servers stop it. Its deadline may have passed long ago, while the group had reached its aim
// or waited for a promotion, and the successor of the allocation needs time.
func lostHealthy(a *structs.Allocation, change deploymentCount) bool {
	return change.healthy < 0 && (a.ServerTerminal() || a.IsUnknown())
}

// extendDeadline gives a group of a deployment that runs its time for the next progress, from now on.
func extendDeadline(d *structs.Deployment, s *structs.DeploymentState, now int64) {
	if d.Status == structs.DeploymentRunning && s.ProgressDeadline > 0 {
		s.RequireProgressBy = time.Unix(0, now).Add(s.ProgressDeadline).UTC()
	}
}

// DeploymentStatus changes the state of a deployment. It ignores a deployment that has changed since the
// RowIndex of the request, if that is set.
func DeploymentStatus(tx *WriteTx, p *structs.DeploymentStatusRequest) error {
	d := Deployment(tx, p.DeploymentID)
	switch {
	case d == nil:
		return structs.NotFoundf("there is no deployment %q", p.DeploymentID)
	case p.RowIndex != 0 && !appliesTo(&p.DeploymentStatusUpdate, d):
		return nil
	case !d.Active():
		return hasEnded(d)
	}
	updateDeployment(tx, &p.DeploymentStatusUpdate, p.Now)
	j := Job(tx, d.Namespace, d.JobID)
	if j != nil {
		putGivenEval(tx, p.Eval, j, p.Now)
	}
	return nil
}

func hasEnded(d *structs.Deployment) error {
	return structs.Preconditionf("deployment %q has ended: it is %s", d.ID, d.Status)
}

// updateDeployment changes the state of an active deployment. With success its version of the job becomes
// stable. A failed one may roll the job back.
func updateDeployment(tx *WriteTx, u *structs.DeploymentStatusUpdate, now int64) {
	d := Deployment(tx, u.DeploymentID)
	if !appliesTo(u, d) {
		return
	}

	if u.Status == structs.DeploymentFailed {
		failDeployment(tx, d, u.StatusDescription, now)
		return
	}

	d = changeDeployment(tx, d, now, func(d *structs.Deployment) {
		resumed := d.Status == structs.DeploymentPaused && u.Status == structs.DeploymentRunning
		d.Status = u.Status
		d.StatusDescription = cmp.Or(u.StatusDescription, d.DefaultDescription())
		for _, s := range d.TaskGroups {
			switch {
			// While it is paused it places nothing, so no deadline may pass.
			case u.Status == structs.DeploymentPaused:
				s.RequireProgressBy = time.Time{}
			// A group without allocations gets its deadline with the first one: see countInGroup.
			case resumed && s.PlacedAllocs > 0:
				extendDeadline(d, s, now)
			}
		}
	})

	switch d.Status {
	case structs.DeploymentSuccessful:
		setStable(tx, JobVersion(tx, d.Namespace, d.JobID, d.JobVersion), true)
	case structs.DeploymentRunning:
		promoteAutomatically(tx, d, now) // canaries may have become healthy while it was paused
	}
}

// failDeployment ends a deployment. If one of its groups demands that, the job goes back to its newest stable
// version. The job is evaluated.
func failDeployment(tx *WriteTx, d *structs.Deployment, why string, now int64) {
	j := Job(tx, d.Namespace, d.JobID)
	var target *structs.Job

	// If there is no way back, the description tells the operator why.
	if d.Reverts() && j != nil {
		var note string
		target, note = wayBack(tx, j)
		why += note
	}

	// It fails before the job goes back: the new version would cancel an active deployment (putJobVersion).
	changeDeployment(tx, d, now, func(d *structs.Deployment) {
		d.Status = structs.DeploymentFailed
		d.StatusDescription = why
		if target != nil {
			d.RevertedVersion = new(target.Version)
		}
	})

	if target != nil {
		j = revertJob(tx, j, target, now)
	}

	evaluateDeployment(tx, j, d, now)
}

// wayBack returns the version to which a job goes back after a failed deployment, nil for none. The note
// tells which, or why none.
func wayBack(tx *WriteTx, j *structs.Job) (target *structs.Job, note string) {
	target = NewestStable(tx, j)
	switch {
	case target == nil:
		return nil, structs.DeploymentHasNoStable
	case sameSpec(target, j):
		return nil, structs.DeploymentStableIsIdentical
	case j.CheckChange(target) != nil:
		return nil, structs.DeploymentStableIsOther
	case namespace.CheckJob(tx, target) != nil:
		return nil, structs.DeploymentStableIsRejected
	}

	// The volumes that exist stay as they are. The entry of a plan makes missing ones.
	err := csi.CheckJobVolumesReturn(tx, target)
	if err != nil {
		return nil, structs.DeploymentStableHasNoVolumes + structs.Cut(err.Error(), structs.MaxReason)
	}
	return target, fmt.Sprint(structs.DeploymentRollsBack, target.Version)
}

// evaluateDeployment puts an evaluation of the job after a change of its deployment.
func evaluateDeployment(tx *WriteTx, j *structs.Job, d *structs.Deployment, now int64) {
	if j == nil || j.Stop {
		return
	}
	e := structs.NewEval(j, structs.TriggerDeployment, now)
	enqueueEval(tx, e, deriveID(tx, structs.TriggerDeployment, j.Namespace, j.ID, d.ID))
}

// JobStable sets whether a version of a job is stable.
func JobStable(tx *WriteTx, p *structs.JobStableRequest) error {
	v := JobVersion(tx, p.RequestNamespace(), p.JobID, p.JobVersion)
	if v == nil {
		return NoVersion(p.RequestNamespace(), p.JobID, p.JobVersion)
	}
	setStable(tx, v, p.Stable)
	return nil
}

// DeploymentDeadline returns the time at which a deployment fails without progress: the first deadline of a
// group that has not reached its aim. It is zero if there is none. It changes only when the row of the
// deployment does.
func DeploymentDeadline(tx Reader, d *structs.Deployment) (first time.Time) {
	for _, s := range d.TaskGroups {
		by := s.RequireProgressBy
		if d.Status != structs.DeploymentRunning || by.IsZero() || s.Waits(HealthyCanaries(tx, s)) {
			continue
		}
		if first.IsZero() || by.Before(first) {
			first = by
		}
	}
	return first
}

// CannotSucceed reports whether a deployment that runs has an unhealthy allocation that nothing replaces,
// because its group is not rescheduled. To wait for its deadline would only delay the way back.
func CannotSucceed(tx Reader, d *structs.Deployment) bool {
	j := JobVersion(tx, d.Namespace, d.JobID, d.JobVersion)
	if d.Status != structs.DeploymentRunning || j == nil {
		return false
	}

	stuck := func(g *structs.TaskGroup) bool {
		s := d.Group(g.Name)
		return s != nil && s.UnhealthyAllocs > 0 && !g.ReschedulePolicy.Enabled()
	}

	if !slices.ContainsFunc(j.TaskGroups, stuck) {
		return false // most: the row of a deployment changes often, and a job may have many allocations
	}

	for a := range AllocsByJob(tx, d.Namespace, d.JobID) {
		g := j.Group(a.TaskGroup)
		stays := a.DeploymentID == d.ID && !a.ServerTerminal() && !a.Migrate && a.NextAllocation == "" &&
			a.ClientStatus != structs.AllocLost
		if stays && a.DeploymentStatus.IsUnhealthy() && g != nil && stuck(g) {
			return true
		}
	}

	return false
}

// HealthyCanaries counts the healthy canaries of a group of a deployment that have not ended.
func HealthyCanaries(tx Reader, s *structs.DeploymentState) (healthy int) {
	for _, id := range s.PlacedCanaries {
		a := Alloc(tx, id)
		if a != nil && !a.Terminal() && !a.IsUnknown() && a.DeploymentStatus.IsHealthy() {
			healthy++
		}
	}
	return healthy
}

// unpromotable returns why the canaries of a group cannot be promoted, and "" if they can.
func unpromotable(tx Reader, d *structs.Deployment, group string) string {
	s := d.Group(group)
	healthy := HealthyCanaries(tx, s)
	if healthy >= s.DesiredCanaries {
		return ""
	}
	return fmt.Sprintf("group %q has %d of %d healthy canaries", group, healthy, s.DesiredCanaries)
}

// sortedGroups returns the names of the groups of a deployment.
func sortedGroups(d *structs.Deployment) []string {
	var names []string
	for name := range d.TaskGroups {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
