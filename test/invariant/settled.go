package invariant

import (
	"fmt"
	"slices"

	"berth/state"
	"berth/structs"
)

// held reports whether the deployment of the job's version keeps a group as it is.
func (v *View) held(j *structs.Job, group string) bool {
	d := v.Deployments[keyOf(j)]
	if d == nil || d.JobVersion != j.Version {
		return false
	}
	return d.Status == structs.DeploymentPaused || d.Status == structs.DeploymentFailed ||
		d.Active() && d.Group(group).AwaitsPromotion()
}

// missing returns the indexes of a group that no allocation has. One that has ended has its index while it is
// not replaced: it waits for its next try, or has done its work.
func (v *View) missing(j *structs.Job, g *structs.TaskGroup) (indexes []int) {
	if v.held(j, g.Name) {
		return nil
	}
	has := map[int]bool{}
	for _, a := range v.ByJob[keyOf(j)] {
		lost := a.ClientStatus == structs.AllocLost
		stays := !a.ClientTerminal() || a.JobVersion == j.Version && a.CreateIndex >= j.CreateIndex
		if a.TaskGroup == g.Name && !a.ServerTerminal() && !lost && a.NextAllocation == "" && stays &&
			!a.DeploymentStatus.IsCanary() {
			has[a.Index()] = true
		}
	}
	for index := 0; len(indexes)+len(has) < g.Count; index++ {
		if !has[index] {
			indexes = append(indexes, index)
		}
	}
	return indexes
}

// counted lists the jobs whose allocations are counted: those that run something, and not on each node.
func (v *View) counted() (jobs []*structs.Job) {
	for _, j := range v.Jobs {
		if !j.Stop && !j.StartsOthers() && !j.PerNode() {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// NothingStaysBlocked finds blocked evaluations with a group for which there is capacity now.
func NothingStaysBlocked(v *View) (faults []string) {
	for _, j := range v.counted() {
		for _, e := range v.Open[keyOf(j)] {
			if e.Status != structs.EvalBlocked {
				continue
			}
			for name := range e.FailedTGAllocs {
				node := v.nodeForBlocked(j, name)
				if node != "" {
					faults = append(faults, fmt.Sprintf("evaluation %s of job %s waits for %v, and node %s has capacity for %s",
						e.ID, j.ID, e.BlockedOn, node, name))
				}
			}
		}
	}
	return faults
}

// nodeForBlocked returns a node with capacity for one more allocation of a group, in whichever version of the
// job it may be placed; "" if there is none.
func (v *View) nodeForBlocked(j *structs.Job, group string) (node string) {
	g := j.Group(group)
	if g == nil {
		return ""
	}
	index := 0
	if g.HasPerAlloc() {
		free := v.missing(j, g)
		if len(free) == 0 {
			return ""
		}
		index = free[0]
	}
	wanted := []want{{j, g, index}}
	for _, a := range v.ByJob[keyOf(j)] {
		old := v.versionOf(a)
		if old != nil && old.Group(group) != nil && old.Version != j.Version {
			wanted = append(wanted, v.wantedOf(old, group, g.Count)...)
		}
	}
	for _, w := range wanted {
		node = v.nodeThatFits(w)
		if node == "" {
			return ""
		}
	}
	return node
}

// wantedOf returns the allocations of an older version of which one may be placed: a held group has a
// successor at any index, and each of these may have a volume of its own.
func (v *View) wantedOf(old *structs.Job, group string, count int) (all []want) {
	g := old.Group(group)
	if !g.HasPerAlloc() {
		return []want{{old, g, 0}}
	}
	for index := range count {
		all = append(all, want{old, g, index})
	}
	return all
}

// NothingMissing finds groups with fewer allocations than their count although there is capacity for one
// more.
func NothingMissing(v *View) (faults []string) {
	for _, j := range v.counted() {
		for _, g := range j.TaskGroups {
			for _, index := range v.missing(j, g) {
				node := v.nodeThatFits(want{j, g, index})
				if node != "" {
					faults = append(faults, fmt.Sprintf("job %s of version %d has no allocation %s[%d], and node %s has capacity",
						j.ID, j.Version, g.Name, index, node))
				}
			}
		}
	}
	return faults
}

// NodesServed finds nodes with capacity that have no allocation of a per-node job.
func NodesServed(v *View) (faults []string) {
	for _, j := range v.Jobs {
		if j.Stop || j.StartsOthers() || !j.PerNode() {
			continue
		}
		for _, g := range j.TaskGroups {
			for id, n := range v.Nodes {
				served := g.Count == 0 || slices.ContainsFunc(v.ByJob[keyOf(j)], func(a *structs.Allocation) bool {
					stays := !a.ClientTerminal() || a.JobVersion == j.Version && a.ClientStatus != structs.AllocLost
					return a.NodeID == id && a.TaskGroup == g.Name && !a.ServerTerminal() && stays
				})
				if !served && v.fitsOn(n, want{j, g, 0}) {
					faults = append(faults, fmt.Sprintf("job %s has no allocation of group %s on node %s", j.ID, g.Name, id))
				}
			}
		}
	}
	return faults
}

// ClaimsWaitForEnding finds claims that wait for one whose allocation nobody stops.
func ClaimsWaitForEnding(v *View) (faults []string) {
	for _, c := range v.Claims {
		for _, other := range v.Claims {
			if c.State != structs.ClaimWaiting || other.State != structs.ClaimGranted ||
				!sameVolume(c, other) || !excludes(c, other) {
				continue
			}
			holder := v.Allocs[other.AllocID]
			if holder != nil && !holder.Terminal() {
				faults = append(faults, fmt.Sprintf("volume %s: %s waits for %s",
					c.VolumeID, describe(v.Allocs[c.AllocID]), describe(holder)))
			}
		}
	}
	return faults
}

// NothingUnwanted finds allocations that are to run although their job is stopped or gone, or has no such
// group, and more of a group than its count and its canaries.
func NothingUnwanted(v *View) (faults []string) {
	for key, all := range v.ByJob {
		j := state.Job(v.Tx, key.Namespace, key.ID)
		count := map[string]int{}
		for _, a := range all {
			if a.Terminal() {
				continue
			}
			count[a.TaskGroup]++
			if j == nil || j.Stop || j.Group(a.TaskGroup) == nil {
				faults = append(faults, describe(a))
			}
		}
		if j == nil || j.PerNode() {
			continue
		}
		for _, g := range j.TaskGroups {
			most := g.Count
			if d := v.Deployments[key]; d != nil && d.Active() && d.Group(g.Name).AwaitsPromotion() {
				most += d.Group(g.Name).DesiredCanaries
			}
			if count[g.Name] > most {
				faults = append(faults, fmt.Sprintf("job %s has %d of group %s, and wants %d",
					j.ID, count[g.Name], g.Name, most))
			}
		}
	}
	return faults
}

// NothingOnLostNodes finds allocations that have not ended on a node that is down or gone.
func NothingOnLostNodes(v *View) (faults []string) {
	for id, all := range v.OnNode {
		n := v.Nodes[id]
		if n != nil && n.Status != structs.NodeDown {
			continue
		}
		for _, a := range all {
			faults = append(faults, fmt.Sprintf("%s on node %s", describe(a), id))
		}
	}
	return faults
}

// FailuresFollowed finds failed allocations that are to be tried again without limit, and for which no
// evaluation of the job is open.
func FailuresFollowed(v *View) (faults []string) {
	for _, j := range v.Jobs {
		key := keyOf(j)
		if j.Stop || len(v.Open[key]) > 0 {
			continue
		}
		for _, a := range v.ByJob[key] {
			g := j.Group(a.TaskGroup)
			policy := &structs.ReschedulePolicy{Unlimited: j.Type == structs.JobSystem}
			if g != nil && g.ReschedulePolicy != nil {
				policy = g.ReschedulePolicy
			}
			ended := a.ClientStatus == structs.AllocFailed || a.ClientStatus == structs.AllocComplete && !j.Finite()
			if g != nil && ended && policy.Unlimited && !a.ServerTerminal() && a.NextAllocation == "" &&
				a.JobVersion == j.Version && !v.held(j, g.Name) && j.Group(g.Name).Count > 0 &&
				!v.replacedOnNode(j, a) && !v.indexTaken(j, a) {
				faults = append(faults, describe(a))
			}
		}
	}
	return faults
}

// indexTaken reports whether another allocation that is to run has the index of a failed one.
func (v *View) indexTaken(j *structs.Job, a *structs.Allocation) bool {
	return !j.PerNode() && slices.ContainsFunc(v.ByJob[keyOf(j)], func(other *structs.Allocation) bool {
		return other.TaskGroup == a.TaskGroup && other.Index() == a.Index() && !other.Terminal()
	})
}

// replacedOnNode reports whether a newer allocation of a per-node job serves the node, or the node has no
// capacity for one.
func (v *View) replacedOnNode(j *structs.Job, a *structs.Allocation) bool {
	if !j.PerNode() {
		return false
	}
	n := v.Nodes[a.NodeID]
	if n == nil || !v.fitsOn(n, want{j, j.Group(a.TaskGroup), 0}) {
		return true
	}
	return slices.ContainsFunc(v.ByJob[keyOf(j)], func(other *structs.Allocation) bool {
		return other.NodeID == a.NodeID && other.TaskGroup == a.TaskGroup && other.CreateIndex > a.CreateIndex
	})
}
