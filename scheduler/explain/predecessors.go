package explain

import (
	"fmt"
	"slices"

	"berth/state"
	"berth/structs"
	"berth/structs/inquiry"
)

// isOlder reports whether an allocation runs in an older version of the job that is explained.
func (x *explainer) isOlder(a *structs.Allocation) bool {
	return x.isOwn(a) && !a.Terminal() && a.JobVersion != x.job.Version
}

// isOwn reports whether an allocation belongs to the job that is explained.
func (x *explainer) isOwn(a *structs.Allocation) bool {
	return x.job != nil && a.Namespace == x.job.Namespace && a.JobID == x.job.ID
}

// ownWayOut returns what frees a thing that an allocation of the job that is explained has: an update stops
// predecessors of its own group only, and not more than its pace admits.
func (x *explainer) ownWayOut(a *structs.Allocation, otherwise string) string {
	g := x.job.Group(a.TaskGroup)
	again := ", or run it again after: " + command(a.Namespace, "job stop", a.JobID)
	switch {
	case !x.isOlder(a) || g == nil || x.group == "":
		return "it is of the same job: " + otherwise
	case a.TaskGroup != x.group:
		return fmt.Sprintf("it is of group %s, which waits for its own update: first run the job with "+
			"another port, device, volume or size for one of the two groups", a.TaskGroup) + again
	case g.Update.Rolls() && x.job.PerNode():
		return "it is of an older version of the group: run the job with max_parallel = 0, " +
			"to replace all at once" + again
	case g.Update.Rolls() && g.Update.MaxParallel < g.Count:
		return fmt.Sprintf("it is of an older version of the group: run the job with max_parallel = %d, "+
			"to replace all at once", g.Count) + again
	}

	return "it is of the same job: " + otherwise
}

// predecessors explains which allocations of older versions of the job have a host volume that a group needs,
// and without which allocations of other groups a node has capacity for it.
func (s *search) predecessors(m *structs.AllocMetric) []*inquiry.Reason {
	capacity := false
	for dimension := range m.DimensionExhausted {
		// Ports and devices have holders of their own in the list before this one.
		capacity = capacity || dimension != dimensionPorts && dimension != dimensionDevices
	}

	volume := slices.ContainsFunc(m.Rejections, func(r *structs.PlacementRejection) bool {
		return r.Filter == hostVolumeFilter
	})
	if !capacity && !volume {
		return nil
	}

	var found sample
	for n := range s.candidates(s.job) {
		fits := capacity && s.fitsWithout(n, s.isOlder)
		for a := range state.LiveAllocsByNode(s.tx, n.ID) {
			old := state.JobOf(s.tx, a)
			if !s.isOlder(a) || old == nil {
				continue
			}

			name := ""
			if volume {
				name = s.group.HostVolumeConflict(old.Group(a.TaskGroup))
			}

			switch {
			case name != "":
				found.add(s.holder(a, "host volume "+name))
			// An update of the group itself stops its own predecessors for the capacity.
			case fits && a.TaskGroup != s.group.Name:
				found.add(s.holder(a, "cpu, memory and disk that the group needs"))
			}
		}
	}

	return found.list("holders")
}

// emptyPlaces explains the allocations that an update has stopped for a successor that has no place.
func (x *jobExplainer) emptyPlaces(j *structs.Job) []*inquiry.Reason {
	// Without a blocked evaluation each successor has a place, or a plan is about to look for one.
	if j.PerNode() || state.BlockedEval(x.tx, j.Namespace, j.ID) == nil {
		return nil
	}

	taken := map[string]bool{}
	for a := range state.LiveAllocsByJob(x.tx, j.Namespace, j.ID) {
		taken[a.Name] = true
	}

	var all sample
	for a := range state.AllocsByJob(x.tx, j.Namespace, j.ID) {
		g := j.Group(a.TaskGroup)
		stopped := a.ServerTerminal() && a.StopCause == structs.StopReplaced && a.NextAllocation == ""
		switch {
		case !stopped || g == nil || a.JobVersion == j.Version || taken[a.Name] || a.Index() >= g.Count:
		case all.full():
			all.rest++
		default:
			r := x.alloc(a, "was stopped for a successor, which has no place now; until it has one, "+
				"the update stops no more for others")
			r.Remedy = "add nodes, or go back: " + command(j.Namespace, "job revert", j.ID, "VERSION")
			all.add(r)
		}
	}

	return all.list("allocations that were stopped")
}
