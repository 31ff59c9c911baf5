package explain

import (
	"fmt"
	"slices"

	"berth/state"
	"berth/structs"
	"berth/structs/inquiry"
)

// The filters that reject a node for what the group itself may have there, besides resources.
const (
	hostVolumeFilter = "host-volume"
	hostsFilter      = "distinct-hosts"
)

// ownCanary explains that canaries wait for what the older allocations of their group have, which stay until
// the canaries are promoted. It returns nil if they do not.
func (s *search) ownCanary(m *structs.AllocMetric) *inquiry.Reason {
	j := s.job
	d := state.ActiveDeployment(s.tx, j.Namespace, j.ID)
	if d == nil || d.JobVersion != j.Version || !d.Group(s.group.Name).AwaitsPromotion() {
		return nil
	}

	// One is enough: on its node a canary waits for the promotion, and the promotion for the canary.
	for n := range s.candidates(j) {
		for a := range state.LiveAllocsByNode(s.tx, n.ID) {
			older := a.Namespace == j.Namespace && a.JobID == j.ID && a.TaskGroup == s.group.Name &&
				a.JobVersion != j.Version
			if !older {
				continue
			}

			if thing := s.thingOf(a, m); thing != "" {
				r := s.alloc(a, "has "+thing+", which a canary of the group needs, and it stays until the "+
					"canaries are promoted")
				r.Remedy = "add a node for the canaries, or run the job with canary = 0 after: " +
					command(j.Namespace, "deployment fail", structs.ShortID(d.ID))
				return r
			}
		}
	}

	return nil
}

// thingOf returns what an older allocation of the group has on its node that a new one demands for itself, ""
// if the scheduler has not missed it.
func (s *search) thingOf(a *structs.Allocation, m *structs.AllocMetric) string {
	rejects := func(filter string) bool {
		return slices.ContainsFunc(m.Rejections, func(r *structs.PlacementRejection) bool {
			return r.Filter == filter
		})
	}

	// Each thing counts only if the scheduler has named its lack. A node may have it and reject for another
	// reason.
	if rejects(hostsFilter) {
		return "its node for itself (distinct_hosts)"
	}

	if old := state.JobOf(s.tx, a); rejects(hostVolumeFilter) && old != nil {
		if name := s.group.HostVolumeConflict(old.Group(a.TaskGroup)); name != "" {
			return "host volume " + name
		}
	}

	for _, demand := range s.group.PortDemands() {
		same := func(p structs.AllocatedPort) bool { return p.Value == demand.Value }
		if s.ports && demand.Static() && slices.ContainsFunc(a.Ports, same) {
			return fmt.Sprintf("port %d", demand.Value)
		}
	}

	for _, groups := range a.Devices {
		for _, d := range groups {
			if s.devices && s.demands(d) {
				return fmt.Sprintf("%s of %s", count(len(d.DeviceIDs), "device"), d.ID())
			}
		}
	}

	return ""
}
