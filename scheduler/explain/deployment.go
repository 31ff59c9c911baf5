package explain

import (
	"maps"
	"slices"

	"berth/state"
	"berth/structs"
)

// deployment explains a rollout that has not ended, or that failed.
func (x *explainer) deployment(j *structs.Job) []*structs.Reason {
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
		r.Remedy = "mend the job and run it again, or: " + command(j.Namespace, "job revert", j.ID, "VERSION")
		return []*structs.Reason{r}
	case structs.DeploymentRunning:
		r := reason("deployment %s of version %d is not complete", id, d.JobVersion)
		r.Because = x.deploymentGroups(d)
		return []*structs.Reason{r}
	}
	return nil
}

// waves explains how far the update of a job of every node has come.
func (x *explainer) waves(j *structs.Job) (reasons []*structs.Reason) {
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
func (x *explainer) deploymentGroups(d *structs.Deployment) (reasons []*structs.Reason) {
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		s := d.TaskGroups[name]
		switch {
		case s.DesiredCanaries > 0 && !s.Promoted && s.HealthyAllocs >= s.DesiredCanaries && !s.AutoPromote:
			r := reason("group %s has its healthy canaries (%d), and waits for their promotion",
				name, s.DesiredCanaries)
			r.Remedy = command(d.Namespace, "deployment promote", structs.ShortID(d.ID))
			reasons = append(reasons, r)
		case s.HealthyAllocs < s.DesiredTotal:
			r := reason("group %s has %d of %d allocations of the version healthy, %d unhealthy",
				name, s.HealthyAllocs, s.DesiredTotal, s.UnhealthyAllocs)
			if !s.RequireProgressBy.IsZero() {
				r.Text += "; without progress it fails " + x.until(s.RequireProgressBy.UnixNano())
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

// notHealthy explains the allocations of a group of a deployment that are not healthy.
func (x *explainer) notHealthy(d *structs.Deployment, group string) []*structs.Reason {
	var all sample
	for a := range state.LiveAllocsByJob(x.tx, d.Namespace, d.JobID) {
		switch {
		case a.DeploymentID != d.ID, a.TaskGroup != group, a.DeploymentStatus.IsHealthy():
		case all.full():
			all.rest++
		default:
			what := "is " + a.ClientStatus + " and not healthy yet"
			if a.DeploymentStatus.IsUnhealthy() {
				what = "is " + a.ClientStatus + " and unhealthy"
			}
			r := x.alloc(a, what)
			r.Remedy = allocCommand(a, "status")
			all.add(r)
		}
	}
	return all.list("allocations")
}
