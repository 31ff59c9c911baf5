package control

import (
	"context"
	"iter"
	"slices"
	"time"

	"berth/fsm"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// deploymentLoop fails the deployments that made no progress before their deadline, or have an unhealthy
// allocation that nothing replaces. It promotes canaries that need no operator and waited only for canaries
// of other groups, which an operator has promoted. All else about deployments happens in the log entries that
// change allocations.
type deploymentLoop struct{ Deps }

func (l deploymentLoop) runner() workqueue.Runner {
	return workqueue.Runner{
		Name:     "deployments",
		Logger:   l.Logger,
		Store:    l.Store,
		Retry:    l.Config.Retry,
		Parallel: workqueue.Always(1),
		Topics:   []state.Topic{schema.ActiveDeploymentRows},
		All:      deploymentKeys,
		Read:     l.read,
		Keys: func(_ *state.ReadTx, c state.Change) iter.Seq[workqueue.Key] {
			return slices.Values([]workqueue.Key{rowKey(schema.ActiveDeploymentRows, c.Key[0], c.Key[1])})
		},
	}
}

// deploymentKeys yields the jobs whose deployment has not ended.
func deploymentKeys(tx *state.ReadTx) iter.Seq[workqueue.Key] {
	return func(yield func(workqueue.Key) bool) {
		for d := range state.ActiveDeployments(tx) {
			if !yield(rowKey(schema.ActiveDeploymentRows, d.Namespace, d.JobID)) {
				return
			}
		}
	}
}

func (l deploymentLoop) read(tx *state.ReadTx, k workqueue.Key) workqueue.Step {
	d := state.ActiveDeployment(tx, k.Key[0], k.Key[1])
	if d == nil {
		return workqueue.Step{}
	}

	if state.PromotesItself(tx, d) {
		return workqueue.Step{
			Op:      "promote",
			Version: d.ModifyIndex,
			Serial:  d.ID,
			Act: func(ctx context.Context) error {
				return l.promote(ctx, tx, d)
			},
		}
	}

	why := structs.DeploymentFailedByDeadline
	due := state.DeploymentDeadline(tx, d)
	switch {
	case state.CannotSucceed(tx, d):
		why = structs.DeploymentFailedByAlloc
		due = time.Time{}
	case due.IsZero():
		return workqueue.Step{}
	default:
		due = l.Clock.Until(due.UnixNano())
	}

	return workqueue.Step{
		Op:      "fail",
		Version: d.ModifyIndex,
		Serial:  d.ID,
		Due:     due,
		Act: func(ctx context.Context) error {
			return l.fail(ctx, d, why)
		},
	}
}

// fail ends a deployment that has not changed since it was read.
func (l deploymentLoop) fail(ctx context.Context, d *structs.Deployment, why string) error {
	req := &structs.DeploymentStatusRequest{WriteOptions: l.stamp(d.Namespace)}
	req.DeploymentID = d.ID
	req.Status = structs.DeploymentFailed
	req.StatusDescription = why
	req.RowIndex = d.ModifyIndex
	return propose(ctx, l.Deps, fsm.DeploymentStatus, req)
}

// promote promotes all canaries of a deployment, and evaluates its job.
func (l deploymentLoop) promote(ctx context.Context, tx *state.ReadTx, d *structs.Deployment) error {
	req := &structs.DeploymentPromoteRequest{
		DeploymentID: d.ID,
		All:          true,
		WriteOptions: l.stamp(d.Namespace),
	}
	job := state.Job(tx, d.Namespace, d.JobID)
	if job != nil {
		req.Eval = structs.NewEval(job, structs.TriggerDeployment, req.Now)
		req.Eval.ID = structs.NewID()
	}
	return propose(ctx, l.Deps, fsm.DeploymentPromote, req)
}
