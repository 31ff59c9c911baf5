package job

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/watch"
	"berth/structs"
)

// deploymentOf returns the deployment of the job's version, nil if it has none.
func deploymentOf(ctx context.Context, w *watch.Watch, job *structs.Job) (*structs.Deployment, error) {
	d, _, err := jobs.LatestDeployment(ctx, w.API, job.ID, &api.Query{Namespace: job.Namespace})
	if err != nil || d == nil || d.JobVersion != job.Version {
		return nil, err
	}
	return d, nil
}

// awaitDeployment follows a deployment until it ends, or until it does nothing without an operator. It
// reports whether the deployment has succeeded.
func awaitDeployment(ctx context.Context, w *watch.Watch, d *structs.Deployment) (succeeded bool, err error) {
	w.WaitFor("job", d.Namespace, d.JobID)
	q := &api.Query{Namespace: d.Namespace, MaxWait: watch.ReadWait}
	for {
		d, meta, err := jobs.GetDeployment(ctx, w.API, d.ID, q)
		if err != nil {
			return false, err
		}

		reportDeployment(w, d)
		allocs, _, err := jobs.ListDeploymentAllocations(ctx, w.API, d.ID, &api.Query{Namespace: d.Namespace})
		if err == nil {
			err = reportDeployed(w, allocs)
		}
		if err != nil {
			return false, err
		}

		done, err := endOfDeployment(w, d, allocs)
		if done || err != nil {
			return d.Status == structs.DeploymentSuccessful, err
		}

		err = w.AwaitChange(ctx, q, meta)
		if err != nil {
			return false, err
		}
	}
}

// endOfDeployment reports whether a deployment has ended or waits for an operator.
func endOfDeployment(
	w *watch.Watch, d *structs.Deployment, allocs []*structs.AllocListStub,
) (done bool, err error) {
	id := w.Call.ID(d.ID)
	switch d.Status {
	case structs.DeploymentSuccessful:
		return true, nil
	case structs.DeploymentFailed, structs.DeploymentCancelled:
		return true, structs.Preconditionf("deployment %s of job %q is %s", id, d.JobID,
			show.WithDescription(d.Status, d.StatusDescription))
	case structs.DeploymentPaused:
		writeDeploymentStep(w, d)
		return true, nil
	}

	if !d.AwaitsPromotion() || d.AutoPromotes() {
		return false, nil
	}

	canaries := healthyCanaries(allocs)
	for name, s := range d.TaskGroups {
		if !s.Waits(canaries[name]) {
			return false, nil
		}
	}

	w.WriteLine(`The canaries are healthy; "%s" lets them replace the old allocations`,
		structs.CommandLine(d.Namespace, "deployment promote", id))
	return true, nil
}

// writeDeploymentStep writes the next step of an operator whose deployment does not run. After success there
// is none.
func writeDeploymentStep(w *watch.Watch, d *structs.Deployment) {
	id := w.Call.ID(d.ID)
	switch d.Status {
	case structs.DeploymentSuccessful:
	case structs.DeploymentPaused:
		w.WriteLine(`Deployment %s is paused; "%s" lets it go on`, id,
			structs.CommandLine(d.Namespace, "deployment resume", id))
	default:
		w.WriteLine("To see what its job waits for now: %s",
			structs.CommandLine(d.Namespace, "job why", d.JobID))
	}
}

// healthyCanaries counts the healthy canaries of each group of a deployment that have not ended.
func healthyCanaries(allocs []*structs.AllocListStub) map[string]int {
	healthy := map[string]int{}
	for _, a := range allocs {
		live := a.DesiredStatus == structs.AllocDesiredRun && !a.ClientTerminal()
		if live && a.DeploymentStatus.IsCanary() && a.DeploymentStatus.IsHealthy() {
			healthy[a.TaskGroup]++
		}
	}

	return healthy
}

// reportDeployment writes the change of a deployment and of its groups.
func reportDeployment(w *watch.Watch, d *structs.Deployment) {
	w.WriteChange(d.ID, "Deployment %s of version %d is %s", w.Call.ID(d.ID), d.JobVersion,
		show.WithDescription(d.Status, d.StatusDescription))
	for name, s := range show.Sorted(d.TaskGroups) {
		text := fmt.Sprintf("Group %q: %d of %d placed, %d healthy", name, s.PlacedAllocs, s.DesiredTotal,
			s.HealthyAllocs)
		if s.UnhealthyAllocs > 0 {
			text += fmt.Sprintf(", %d unhealthy", s.UnhealthyAllocs)
		}
		if s.DesiredCanaries > 0 && !s.Promoted {
			text += fmt.Sprintf("; %s to promote", show.Plural(s.DesiredCanaries, "canary allocation"))
		}
		w.WriteChange(d.ID+" "+name, "%s", text)
	}
}

// reportDeployed writes the changes of the allocations of a deployment.
func reportDeployed(w *watch.Watch, allocs []*structs.AllocListStub) error {
	slices.SortFunc(allocs, func(a, b *structs.AllocListStub) int {
		return strings.Compare(a.Name+a.ID, b.Name+b.ID)
	})

	for _, a := range allocs {
		subject := fmt.Sprintf("Allocation %s (%s on %s)", w.Call.ID(a.ID), a.Name, watch.NodeLabel(a))
		switch {
		case a.ClientTerminal():
			w.WriteChange(a.ID, "%s is %s", subject, watch.EndText(a))
			err := checkReplaced(w, a)
			if err != nil {
				return err
			}

		case a.DeploymentStatus.IsHealthy():
			w.WriteChange(a.ID, "%s is healthy", subject)
		case a.DeploymentStatus.IsUnhealthy():
			w.WriteChange(a.ID, "%s is unhealthy%s", subject, watch.LastEvent(a))
		default:
			w.WriteChange(a.ID, "%s is %s%s", subject, a.ClientStatus, watch.LastEvent(a))
		}
	}

	return nil
}

// checkReplaced returns an error for a failed allocation that nothing replaces: the deployment cannot go on,
// and fails at its deadline. The scheduler replaces others a moment after they failed, so the first read does
// not count.
func checkReplaced(w *watch.Watch, a *structs.AllocListStub) error {
	failed := a.ClientStatus == structs.AllocFailed && a.DesiredStatus == structs.AllocDesiredRun
	if !failed || a.FollowupEvalID != "" || a.NextAllocation != "" {
		delete(w.Failed, a.ID)
		return nil
	}

	if !w.Failed[a.ID] {
		w.Failed[a.ID] = true
		return nil
	}

	return structs.Internalf("allocation %s is %s", w.Call.ID(a.ID), watch.EndText(a))
}
