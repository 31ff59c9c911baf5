package state

import (
	"slices"

	"berth/structs"
)

// ReplacedReason is the description of an allocation that is stopped for its successor of a newer version.
const ReplacedReason = "replaced by a newer version of the job"

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
		case next == nil:
			return "", a.NextAllocation == "" && DataDue(tx, a)
		case hasStarted(next) || !takesData(groupOf(tx, next), next.NodeID == from):
			return "", false
		case next.NextAllocation == "" && !next.Terminal():
			return next.ID, true
		}
		a = next
	}
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

// DataDue reports whether an allocation without a replacement is to get one that takes over its data: it was
// stopped to be placed again, or has failed.
func DataDue(tx Reader, a *structs.Allocation) bool {
	job := Job(tx, a.Namespace, a.JobID)
	if job == nil || job.Stop || a.CreateIndex < job.CreateIndex {
		return false
	}
	g := job.Group(a.TaskGroup)
	done := job.Finite() && a.ClientStatus == structs.AllocComplete
	return takesData(g, true) && !done &&
		a.Index() < g.Count &&
		(a.Migrate || !a.ServerTerminal())
}

// DataWaits returns those of some allocations of a node that DataAwaited reports, each with its replacement.
func DataWaits(tx Reader, nodeID string, ids []string) map[string]string {
	waits := map[string]string{}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		a := Alloc(tx, id)
		if a == nil || a.NodeID != nodeID || !a.ClientTerminal() {
			continue
		}
		if by, awaited := DataAwaited(tx, a); awaited {
			waits[id] = by
		}
	}
	return waits
}
