package scheduler

import (
	"berth/state"
	"berth/structs"
)

// nodeView is a node with the effects of the plan so far.
type nodeView struct {
	node    *structs.Node
	used    structs.Resources
	devices structs.DeviceUse   // in use
	ports   *structs.NodePorts  // nil until a group demands some
	groups  map[string]int      // this job's live allocations, by group
	storage map[string]*storage // by plugin, as far as needed

	users    []*structs.Allocation // live ones that are to use volumes
	wanted   int                   // the number of these volumes
	intended []*structs.CSIClaim   // of the allocations that the plan places here
}

func (v *nodeView) jobAllocs() int {
	n := 0
	for _, c := range v.groups {
		n += c
	}
	return n
}

// countAlloc adds an allocation to the counts, or removes it if by is -1.
func (v *nodeView) countAlloc(p *planner, a *structs.Allocation, by int) {
	if a.Resources != nil {
		if by > 0 {
			v.used = v.used.Add(*a.Resources)
		} else {
			v.used = v.used.Sub(*a.Resources)
		}
	}
	if by > 0 {
		v.devices = v.devices.Add(a)
	} else {
		v.devices.Remove(a)
	}
	if p.ofJob(a) {
		if v.groups == nil {
			v.groups = map[string]int{}
		}
		v.groups[a.TaskGroup] += by
	}
}

// viewOf returns the view of a node: from the state the first time, and with the plan's effects later.
func (p *planner) viewOf(n *structs.Node) *nodeView {
	if v := p.views[n.ID]; v != nil {
		return v
	}
	v := &nodeView{node: n}
	for a := range state.LiveAllocsByNode(p, n.ID) {
		if !p.stopped[a.ID] {
			v.countAlloc(p, a, 1)
		}
		if len(a.CSIVolumes) > 0 {
			v.users = append(v.users, a)
			v.wanted += len(a.CSIVolumes)
		}
	}
	p.views[n.ID] = v
	return v
}

// stopAlloc plans to stop an allocation, which has ended with clientStatus if that is not empty.
func (p *planner) stopAlloc(a *structs.Allocation, why, clientStatus string) {
	if p.stopped[a.ID] {
		return
	}
	p.stopped[a.ID] = true
	p.plan.Stop = append(p.plan.Stop, &structs.PlanStop{
		AllocID:      a.ID,
		Description:  why,
		ClientStatus: clientStatus,
	})
	p.countInView(a, -1)
	p.countValues(a, -1)
}

// countInView adds an allocation to the view of its node, or removes it, if there is a view.
func (p *planner) countInView(a *structs.Allocation, by int) {
	v := p.views[a.NodeID]
	if v != nil && !a.Terminal() {
		v.countAlloc(p, a, by)
	}
}

// unstopAlloc takes back the newest stop: the replacement found no place, so the allocation keeps running.
func (p *planner) unstopAlloc(a *structs.Allocation) {
	delete(p.stopped, a.ID)
	p.plan.Stop = p.plan.Stop[:len(p.plan.Stop)-1]
	p.countInView(a, 1)
	p.countValues(a, 1)
}

// nodeLost reports whether the node of an allocation is down or gone.
func (p *planner) nodeLost(nodeID string) bool {
	return state.Node(p, nodeID).Lost()
}
