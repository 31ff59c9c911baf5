package invariant

import (
	"fmt"
	"slices"

	"berth/structs"
)

// UpdatesKeepPace finds groups of services of which the newest entry replaces an allocation, and which then
// miss more than max_parallel because of their update: successors whose health is not known, and indexes
// whose allocations were stopped first. One that stops for a healthy successor, such as a promoted canary,
// leaves nothing to replace.
//
// Jobs of every node are left out: no row has the time of an entry, by which stagger counts.
func UpdatesKeepPace(v *View) (faults []string) {
	for _, j := range v.Jobs {
		d := v.Deployments[keyOf(j)]
		if d == nil || d.JobVersion != j.Version {
			continue
		}
		for _, g := range j.TaskGroups {
			if !g.Update.Rolls() {
				continue
			}
			m := v.missedBy(j, g, d)
			exceeds := m.fresh+m.empty > g.Update.MaxParallel
			if m.replaces && exceeds {
				faults = append(faults, fmt.Sprintf(
					"job %s, version %d misses %d and %d successors of group %s, max_parallel is %d",
					j.ID, j.Version, m.fresh, m.empty, g.Name, g.Update.MaxParallel))
			}
		}
	}
	return faults
}

// missed counts what a group misses because of its update.
type missed struct {
	fresh    int  // successors whose health is not known
	empty    int  // indexes whose allocations were stopped first
	replaces bool // the newest entry has stopped one without a healthy successor
}

func (v *View) missedBy(j *structs.Job, g *structs.TaskGroup, d *structs.Deployment) (m missed) {
	newest := v.Tx.Applied()
	taken := map[int]bool{}
	first := map[int]bool{}
	healthy := map[int]bool{}
	var stopped []int // indexes of which the newest entry has stopped an allocation
	for _, a := range v.ByJob[keyOf(j)] {
		stoppedFor := a.ServerTerminal() && a.StopCause == structs.StopReplaced
		s := a.DeploymentStatus
		switch {
		case a.TaskGroup != g.Name || s.IsCanary():
		case stoppedFor:
			if a.AllocModifyIndex == newest {
				stopped = append(stopped, a.Index())
			}
			if a.NextAllocation == "" && a.Index() < g.Count {
				first[a.Index()] = true
			}
		case !a.ServerTerminal():
			taken[a.Index()] = true
			healthy[a.Index()] = healthy[a.Index()] || s.IsHealthy() && a.DeploymentID == d.ID
			known := a.ClientTerminal() || s.IsHealthy() || s.IsUnhealthy()
			if a.DeploymentID == d.ID && !known && a.CreateIndex > j.JobModifyIndex { // not updated in place
				m.fresh++
			}
		}
	}
	for index := range first {
		if !taken[index] {
			m.empty++
		}
	}
	m.replaces = slices.ContainsFunc(stopped, func(index int) bool { return !healthy[index] })
	return m
}
