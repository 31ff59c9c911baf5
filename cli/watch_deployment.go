package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/structs"
)

// deploymentOf returns the deployment of the job's version, nil if it has none.
func deploymentOf(ctx context.Context, w *watch, job *structs.Job) (*structs.Deployment, error) {
	d, _, err := w.api.JobDeployment(ctx, job.ID, &api.Query{Namespace: job.Namespace})
	if err != nil || d == nil || d.JobVersion != job.Version {
		return nil, err
	}
	return d, nil
}

// awaitDeployment follows a deployment until it ends, or until it does nothing without an operator. It
// reports whether the deployment has succeeded.
func awaitDeployment(ctx context.Context, w *watch, d *structs.Deployment) (succeeded bool, err error) {
	w.waitFor("job", d.Namespace, d.JobID)
	q := &api.Query{Namespace: d.Namespace, MaxWait: readWait}
	for {
		d, meta, err := w.api.Deployment(ctx, d.ID, q)
		if err != nil {
			return false, err
		}
		reportDeployment(w, d)
		allocs, _, err := w.api.DeploymentAllocations(ctx, d.ID, &api.Query{Namespace: d.Namespace})
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
		err = w.awaitChange(ctx, q, meta)
		if err != nil {
			return false, err
		}
	}
}

// endOfDeployment reports whether a deployment has ended or waits for an operator.
func endOfDeployment(
	w *watch, d *structs.Deployment, allocs []*structs.AllocListStub,
) (done bool, err error) {
	id := w.c.id(d.ID)
	switch d.Status {
	case structs.DeploymentSuccessful:
		return true, nil
	case structs.DeploymentFailed, structs.DeploymentCancelled:
		return true, structs.Preconditionf("deployment %s of job %q is %s", id, d.JobID,
			withDescription(d.Status, d.StatusDescription))
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
	w.writeLine(`The canaries are healthy; "%s" lets them replace the old allocations`,
		structs.CommandLine(d.Namespace, "deployment promote", id))
	return true, nil
}

// writeDeploymentStep writes the next step of an operator whose deployment does not run. After success there
// is none.
func writeDeploymentStep(w *watch, d *structs.Deployment) {
	id := w.c.id(d.ID)
	switch d.Status {
	case structs.DeploymentSuccessful:
	case structs.DeploymentPaused:
		w.writeLine(`Deployment %s is paused; "%s" lets it go on`, id,
			structs.CommandLine(d.Namespace, "deployment resume", id))
	default:
		w.writeLine("To see what its job waits for now: %s",
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
func reportDeployment(w *watch, d *structs.Deployment) {
	w.writeChange(d.ID, "Deployment %s of version %d is %s", w.c.id(d.ID), d.JobVersion,
		withDescription(d.Status, d.StatusDescription))
	for name, s := range sorted(d.TaskGroups) {
		text := fmt.Sprintf("Group %q: %d of %d placed, %d healthy", name, s.PlacedAllocs, s.DesiredTotal,
			s.HealthyAllocs)
		if s.UnhealthyAllocs > 0 {
			text += fmt.Sprintf(", %d unhealthy", s.UnhealthyAllocs)
		}
		if s.DesiredCanaries > 0 && !s.Promoted {
			text += fmt.Sprintf("; %s to promote", plural(s.DesiredCanaries, "canary allocation"))
		}
		w.writeChange(d.ID+" "+name, "%s", text)
	}
}

// reportDeployed writes the changes of the allocations of a deployment.
func reportDeployed(w *watch, allocs []*structs.AllocListStub) error {
	slices.SortFunc(allocs, func(a, b *structs.AllocListStub) int {
		return strings.Compare(a.Name+a.ID, b.Name+b.ID)
	})
	for _, a := range allocs {
		subject := fmt.Sprintf("Allocation %s (%s on %s)", w.c.id(a.ID), a.Name, nodeLabel(a))
		switch {
		case a.ClientTerminal():
			w.writeChange(a.ID, "%s is %s", subject, endText(a))
			err := checkReplaced(w, a)
			if err != nil {
				return err
			}
		case a.DeploymentStatus.IsHealthy():
			w.writeChange(a.ID, "%s is healthy", subject)
		case a.DeploymentStatus.IsUnhealthy():
			w.writeChange(a.ID, "%s is unhealthy%s", subject, lastEvent(a))
		default:
			w.writeChange(a.ID, "%s is %s%s", subject, a.ClientStatus, lastEvent(a))
		}
	}
	return nil
}

// checkReplaced returns an error for a failed allocation that nothing replaces: the deployment cannot go on,
// and fails at its deadline. The scheduler replaces others a moment after they failed, so the first read does
// not count.
func checkReplaced(w *watch, a *structs.AllocListStub) error {
	failed := a.ClientStatus == structs.AllocFailed && a.DesiredStatus == structs.AllocDesiredRun
	if !failed || a.FollowupEvalID != "" || a.NextAllocation != "" {
		delete(w.failed, a.ID)
		return nil
	}
	if !w.failed[a.ID] {
		w.failed[a.ID] = true
		return nil
	}
	return structs.Internalf("allocation %s is %s", w.c.id(a.ID), endText(a))
}
