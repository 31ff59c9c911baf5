package explain

import (
	"cmp"
	"fmt"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/inquiry"
)

// unhealthyAlloc explains why an allocation of a deployment is not healthy, or not yet.
func (x *jobExplainer) unhealthyAlloc(a *structs.Allocation) *inquiry.Reason {
	if !a.ClientTerminal() && !a.ServerTerminal() && !x.shown[a.ID] {
		x.shown[a.ID] = true
		if why := x.liveAlloc(a); why != nil {
			return why
		}
	}

	what := "is " + a.ClientStatus + " and not healthy yet"
	if a.DeploymentStatus.IsUnhealthy() {
		what = "is " + a.ClientStatus + " and unhealthy"
	}

	why, remedy := x.healthOf(a)
	r := x.alloc(a, what+": "+why)
	r.Remedy = remedy
	return r
}

// healthOf tells what an allocation whose tasks are placed and reported lacks to be healthy, and the next
// thing to do.
func (x *explainer) healthOf(a *structs.Allocation) (why, remedy string) {
	status := allocCommand(a, "status")
	j := state.JobOf(x.tx, a)
	if j == nil || j.Group(a.TaskGroup) == nil {
		return lastEvent(a), status
	}

	g := j.Group(a.TaskGroup)
	rule := g.HealthRule(a.DeploymentID != "")
	order := structs.OrderOf(g.Tasks, a.TaskStates)
	checks, outOfOrder := failingCheck(a)
	switch {
	// The cause is in the events and logs of the tasks. No rule of health matters before they run in their
	// order.
	case order.Failed, a.ClientTerminal(), !order.Runs:
		return lastEvent(a), causeCommand(a)
	case rule == nil:
		return "its node has not decided on its health yet", status
	case rule.Check == structs.HealthManual && !x.inDeployment(a):
		return "its health is set from outside (health_check = manual), and its deployment has ended", status
	case rule.Check == structs.HealthManual:
		return "its health is set from outside (health_check = manual)",
			fmt.Sprintf("PUT /v1/deployment/allocation-health/%s with {\"HealthyAllocationIDs\": [%q]}",
				a.DeploymentID, a.ID)
	case rule.Check == structs.HealthChecks && outOfOrder:
		return checks, allocCommand(a, "checks")
	case a.DeploymentStatus.IsUnhealthy():
		return fmt.Sprintf("it was not healthy within its healthy_deadline of %s", rule.Deadline), status
	case order.Since.IsZero():
		return lastEvent(a), status
	// Nothing is wrong yet.
	case order.Since.Add(rule.MinTime).After(x.now):
		return fmt.Sprintf("it is healthy when its tasks have run for %s (min_healthy_time)", rule.MinTime),
			status
	case rule.Check == structs.HealthChecks && checksIn(g):
		return "its tasks run, and the checks of its services have not passed for min_healthy_time",
			allocCommand(a, "checks")
	}

	return "its node has not decided on its health yet", status
}

// inDeployment reports whether the deployment of an allocation has not ended, so that its health may be set.
func (x *explainer) inDeployment(a *structs.Allocation) bool {
	d := state.Deployment(x.tx, a.DeploymentID)
	return d != nil && d.Active()
}

// failingCheck describes a service of an allocation whose checks do not pass.
func failingCheck(a *structs.Allocation) (text string, found bool) {
	for _, s := range a.Services {
		switch s.Status {
		case structs.CheckPending:
			return fmt.Sprintf("the checks of service %s have no result yet", s.ServiceName), true
		case structs.CheckFailing, structs.CheckWarning:
			return fmt.Sprintf("the checks of service %s do not pass: %s", s.ServiceName, s.Status), true
		}
	}
	return "", false
}

// checksIn reports whether a group has services with checks.
func checksIn(g *structs.TaskGroup) bool {
	for s := range g.AllServices() {
		if len(s.Checks) > 0 {
			return true
		}
	}
	return false
}

// sickPlugin explains that a CSI plugin of an allocation is not healthy.
func (x *explainer) sickPlugin(a *structs.Allocation) *inquiry.Reason {
	for _, id := range a.CSIPlugins {
		for i := range csi.InstancesByPlugin(x.tx, id) {
			if i.NodeID != a.NodeID || i.AllocID != a.ID || i.Healthy {
				continue
			}

			r := x.alloc(a, fmt.Sprintf("runs plugin %s, whose %s half is not healthy: %s", id, i.Kind,
				cmp.Or(i.HealthDescription, "it has not answered yet")))
			r.Remedy = x.pluginLogs(a, id)
			return r
		}
	}

	return nil
}
