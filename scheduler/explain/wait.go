package explain

import (
	"cmp"
	"fmt"
	"slices"

	"berth/scheduler/drainer"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// awaited explains an allocation that starts when others have let go of everything: it displaces or replaces
// them, or they give it their capacity. The result is nil if there are none.
func (x *explainer) awaited(a *structs.Allocation) *structs.Reason {
	var others sample
	n := 0
	for _, id := range slices.Sorted(a.Awaits()) {
		other := state.Alloc(x.tx, id)
		held := x.heldBy(other)
		switch {
		// What is unknown gives up nothing before its node is back, and nothing waits for it.
		case other == nil, other.IsUnknown(), other.ClientTerminal() && len(held) == 0:
			continue
		case others.full():
			others.rest++
		case other.ClientTerminal():
			for _, c := range held {
				others.add(x.heldClaim(c))
			}
		default:
			others.add(x.endingAlloc(other))
		}

		n++
	}

	if n == 0 {
		return nil
	}

	what := "is pending, and starts when " + count(n, "other allocation") + " have let go of everything"
	if n == 1 {
		what = "is pending, and starts when another allocation has let go of everything"
	}

	if displaced := len(a.PreemptedAllocations); displaced > 0 {
		what += "; it displaces " + count(displaced, "allocation") + " of less important jobs"
	}

	r := x.alloc(a, what)
	r.Because = others.list("allocations")
	return r
}

// heldBy returns the claims that an allocation has after its end. None of them counts where its node is lost:
// nothing waits for that one.
func (x *explainer) heldBy(a *structs.Allocation) (held []*structs.CSIClaim) {
	if a == nil || state.Node(x.tx, a.NodeID).Lost() {
		return nil
	}
	for c := range csi.ClaimsByAlloc(x.tx, a.ID) {
		if c.EndTime != 0 {
			held = append(held, c)
		}
	}
	return held
}

// displaced explains the allocations of a waiting job that more important jobs have displaced.
func (x *jobExplainer) displaced(j *structs.Job) []*structs.Reason {
	if state.BlockedEval(x.tx, j.Namespace, j.ID) == nil {
		return nil
	}

	var all sample
	for a := range state.AllocsByJob(x.tx, j.Namespace, j.ID) {
		// It matters only while the other one runs and the displaced one has no successor.
		by := state.Alloc(x.tx, a.PreemptedByAllocation)
		switch {
		case by == nil || by.Terminal() || a.NextAllocation != "":
		case all.full():
			all.rest++
		default:
			r := x.alloc(a, fmt.Sprintf("was displaced by %s, whose priority is %d",
				x.reader.allocOf(by), state.AllocPriority(x.tx, by)))
			r.Remedy = fmt.Sprintf("add nodes, or raise the priority %d of the job", j.Priority)
			all.add(r)
		}
	}

	return all.list("displaced allocations")
}

// drains explains the allocations of a job that are still on nodes that drain.
func (x *jobExplainer) drains(j *structs.Job) []*structs.Reason {
	var nodes []*structs.Node
	var left sample
	seen := map[string]bool{}
	for a := range state.LiveAllocsByJob(x.tx, j.Namespace, j.ID) {
		n := state.Node(x.tx, a.NodeID)
		switch {
		// The drains of the nodes are planned once, so the nodes are collected first.
		case n == nil || n.DrainStrategy == nil || seen[n.ID]:
		case len(nodes) == mostListed:
			left.rest++
		default:
			seen[n.ID] = true
			nodes = append(nodes, n)
		}
	}

	for _, w := range drainer.WaitsOf(x.tx, nodes, x.now) {
		switch {
		case w.JobID != j.ID || w.Namespace != j.Namespace:
		case left.full():
			left.rest++
		default:
			a := state.Alloc(x.tx, w.AllocID)
			x.shown[a.ID] = true
			r := x.alloc(a, "is still there, although the node drains: "+w.Reason)
			// The watch of the drain writes this reason, too, so another command is the next one.
			r.Remedy = "berth node status " + structs.ShortID(a.NodeID)
			if a.ServerTerminal() {
				r.Remedy = x.endingRemedy(a)
			}

			left.add(r)
		}
	}

	return left.list("allocations on nodes that drain")
}

// awaitedTask returns the task of an allocation after which another one of it starts, "" if nothing prevents
// that: a prestart task for the main tasks, a main task for the poststart tasks.
func (x *explainer) awaitedTask(a *structs.Allocation, name string) string {
	j := state.JobOf(x.tx, a)
	if j == nil || j.Group(a.TaskGroup) == nil {
		return ""
	}

	g := j.Group(a.TaskGroup)
	waits := g.Task(name)
	if waits == nil || waits.HasHook(structs.LifecyclePrestart) {
		return ""
	}

	for _, t := range g.Tasks {
		s := a.TaskStates[t.Name]
		switch {
		case t.HasHook(structs.LifecyclePrestart):
			// A sidecar never ends by itself, so it lets the others start when it runs.
			if s == nil || !s.Successful() && (s.State != structs.TaskRunning || !t.Sidecar()) {
				return t.Name
			}
		case t.HasHook("") && waits.HasHook(structs.LifecyclePoststart):
			if s == nil || !s.Successful() && s.State != structs.TaskRunning {
				return t.Name
			}
		}
	}

	return ""
}

// stateOf returns the state of a task.
func stateOf(a *structs.Allocation, task string) string {
	if s := a.TaskStates[task]; s != nil {
		return s.State
	}
	return structs.TaskPending
}

// unhealthyAlloc explains why an allocation of a deployment is not healthy, or not yet.
func (x *jobExplainer) unhealthyAlloc(a *structs.Allocation) *structs.Reason {
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
func (x *explainer) sickPlugin(a *structs.Allocation) *structs.Reason {
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
