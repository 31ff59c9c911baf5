package state

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"berth/structs"
)

// longestDataChain bounds the replacements that are tried, each of which ended before it took over the data.
const longestDataChain = 32

// DataAwaited reports whether an allocation that has ended may have data that its replacement has still to
// take over, and names the replacement, "" if it has no place yet. An allocation has its data when the first
// of its tasks starts.
func DataAwaited(tx Reader, a *structs.Allocation) (by string, awaited bool) {
	from := a.NodeID
	for range longestDataChain {
		next := Alloc(tx, a.NextAllocation)
		switch {
		// The replacements end here. It depends on the job whether there will be another one.
		case next == nil:
			return "", dataDue(tx, a)
		// It has taken the data over when it started, or it begins without them.
		case hasStarted(next) || !takesData(groupOf(tx, next), next.NodeID == from):
			return "", false
		// It has still to start, and waits for the data.
		case next.NextAllocation == "" && !next.Terminal():
			return next.ID, true
		}
		a = next
	}

	// Beyond the bound the answer is the safe one: the node keeps the data.
	return "", true
}

// takesData reports whether allocations of a group take over data, from the same node or from another one.
func takesData(g *structs.TaskGroup, sameNode bool) bool {
	return g.KeepsData() && (sameNode || g.EphemeralDisk.Migrate)
}

func hasStarted(a *structs.Allocation) bool {
	if a.ClientStatus == structs.AllocRunning {
		return true
	}
	for _, s := range a.TaskStates {
		if s != nil && !s.StartedAt.IsZero() {
			return true
		}
	}
	return false
}

// dataDue reports whether an allocation without a replacement is to get one that takes over its data. A
// canary shares its name with the allocation that it is to replace. If it has failed, it is replaced itself.
// If it was stopped, the next canary starts empty.
func dataDue(tx Reader, a *structs.Allocation) bool {
	job := Job(tx, a.Namespace, a.JobID)
	if job == nil || !leavesData(tx, job, a) {
		return false
	}
	if a.DeploymentStatus.IsCanary() {
		d := Deployment(tx, a.DeploymentID)
		return d != nil && d.Active() && !a.ServerTerminal()
	}
	at := dataPlaceOf(job, a)
	last := DataLeft(tx, job, allocsAt(tx, job, at))[at]
	return last != nil && last.ID == a.ID
}

// allocsAt yields the allocations of a place. A per-node job may have one on each of many nodes.
func allocsAt(tx Reader, job *structs.Job, at DataPlace) iter.Seq[*structs.Allocation] {
	all := AllocsByJob(tx, job.Namespace, job.ID)
	if at.Node != "" {
		all = AllocsByNode(tx, at.Node)
	}
	return func(yield func(*structs.Allocation) bool) {
		for a := range all {
			if a.Namespace == job.Namespace && a.JobID == job.ID && dataPlaceOf(job, a) == at && !yield(a) {
				return
			}
		}
	}
}

// DataPlace is a place in a job. An allocation there takes over the data of the one before it.
type DataPlace struct {
	Name string // of its allocations
	Node string // in per-node jobs, which have one name for all nodes
}

func dataPlaceOf(job *structs.Job, a *structs.Allocation) DataPlace {
	if job.PerNode() {
		return DataPlace{a.Name, a.NodeID}
	}
	return DataPlace{Name: a.Name}
}

// TakesData reports whether an allocation takes over the data of an earlier one of its job: it replaces that,
// or it runs and is after it at its place.
func TakesData(job *structs.Job, successor, ended *structs.Allocation) bool {
	return ended.ID == successor.PreviousAllocation ||
		dataPlaceOf(job, ended) == dataPlaceOf(job, successor) && follows(successor, ended)
}

// DataLeft returns the allocations of a job whose data the next one at their place takes over although it
// replaces none: the last one of each place, if it leaves any. A canary has no place until its promotion.
func DataLeft(
	tx Reader, job *structs.Job, allocs iter.Seq[*structs.Allocation],
) map[DataPlace]*structs.Allocation {
	last := map[DataPlace]*structs.Allocation{}
	for a := range allocs {
		at := dataPlaceOf(job, a)
		if !a.DeploymentStatus.IsCanary() && (last[at] == nil || follows(a, last[at])) {
			last[at] = a
		}
	}
	maps.DeleteFunc(last, func(_ DataPlace, a *structs.Allocation) bool { return !leavesData(tx, job, a) })
	return last
}

// follows reports whether an allocation is after another one of its place: it has a newer version, or was
// placed later. A promoted canary may be older than a successor in the former version, which it replaces.
func follows(a, other *structs.Allocation) bool {
	return cmp.Or(
		cmp.Compare(a.JobVersion, other.JobVersion),
		cmp.Compare(a.CreateIndex, other.CreateIndex),
	) > 0
}

// leavesData reports whether an allocation has ended for another one, which may still come and is not known.
// In a per-node job that comes on the same node only.
func leavesData(tx Reader, job *structs.Job, a *structs.Allocation) bool {
	return a.NextAllocation == "" &&
		endedForNext(job, a) &&
		!DoneWhenLost(tx, a) &&
		isWanted(tx, job, a) &&
		(!job.PerNode() || Node(tx, a.NodeID) != nil)
}

// endedForNext reports whether an allocation has failed, was displaced, was stopped to be placed again or
// before its successor had a place, or in a per-node job was lost with its node.
func endedForNext(job *structs.Job, a *structs.Allocation) bool {
	// It has ended by itself. An allocation of a batch job that is complete has no successor.
	if !a.ServerTerminal() {
		done := job.Finite() && a.ClientStatus == structs.AllocComplete
		return a.ClientTerminal() && !done
	}
	return a.Migrate ||
		a.DesiredStatus == structs.AllocDesiredEvict ||
		a.StopCause == structs.StopReplaced ||
		a.StopCause == structs.StopNodeDown && job.PerNode()
}

// isWanted reports whether a job wants an allocation at the place of one and keeps its data, and no version
// since the allocation's was stopped or had a lower count: such a job begins anew.
func isWanted(tx Reader, job *structs.Job, a *structs.Allocation) bool {
	wants := func(j *structs.Job) bool {
		g := j.Group(a.TaskGroup)
		return !j.Stop && g != nil && a.Index() < g.Count
	}

	// An allocation that is older than its job is of a purged job that had the ID before.
	if a.CreateIndex < job.CreateIndex || !takesData(job.Group(a.TaskGroup), true) || !wants(job) {
		return false
	}
	for j := range JobVersions(tx, job.Namespace, job.ID) {
		if j.Version > a.JobVersion && !wants(j) {
			return false
		}
	}
	return true
}

// DataWaits returns the allocations of ids on a node that DataAwaited reports, each with its replacement. It
// leaves out those whose end the servers have known since before a time, UnixNano.
func DataWaits(tx Reader, nodeID string, ids []string, since int64) map[string]string {
	waits := map[string]string{}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		a := Alloc(tx, id)
		if a == nil || a.NodeID != nodeID || !a.ClientTerminal() || a.ModifyTime < since {
			continue
		}
		if by, awaited := DataAwaited(tx, a); awaited {
			waits[id] = by
		}
	}
	return waits
}
