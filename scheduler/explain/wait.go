package explain

import (
	"fmt"
	"slices"

	"berth/scheduler/drainer"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/inquiry"
)

// awaited explains an allocation that starts when others have let go of everything: it displaces or replaces
// them, or they give it their capacity. The result is nil if there are none.
func (x *explainer) awaited(a *structs.Allocation) *inquiry.Reason {
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
func (x *jobExplainer) displaced(j *structs.Job) []*inquiry.Reason {
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
func (x *jobExplainer) drains(j *structs.Job) []*inquiry.Reason {
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
