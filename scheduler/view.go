package scheduler

import (
	"berth/state"
	"berth/structs"
)

// view is a node as it will be when what is planned so far is done.
type view struct {
	node    *structs.Node
	used    structs.Resources
	groups  map[string]int      // this job's live allocations, by group
	storage map[string]*storage // by plugin, as far as asked for

	users    []*structs.Allocation // live ones that are to use volumes
	wanted   int                   // how many these are
	intended []*structs.CSIClaim   // of what the plan places here
}

func (v *view) ofJob() int {
	n := 0
	for _, c := range v.groups {
		n += c
	}
	return n
}

// add counts an allocation in, or with by -1 out.
func (v *view) add(p *planner, a *structs.Allocation, by int) {
	if a.Resources != nil {
		if by > 0 {
			v.used = v.used.Add(*a.Resources)
		} else {
			v.used = v.used.Sub(*a.Resources)
		}
	}
	if a.JobID == p.eval.JobID && a.Namespace == p.ns {
		if v.groups == nil {
			v.groups = map[string]int{}
		}
		v.groups[a.TaskGroup] += by
	}
}

// view looks at a node, from the state the first time and from the plan ever after.
func (p *planner) view(n *structs.Node) *view {
	if v := p.views[n.ID]; v != nil {
		return v
	}
	v := &view{node: n}
	for a := range state.LiveAllocsByNode(p.tx, n.ID) {
		if !p.stopped[a.ID] {
			v.add(p, a, 1)
		}
		if len(a.CSIVolumes) > 0 {
			v.users = append(v.users, a)
			v.wanted += len(a.CSIVolumes)
		}
	}
	p.views[n.ID] = v
	return v
}

// stop plans to stop an allocation; with a client status it is said to have ended so.
func (p *planner) stop(a *structs.Allocation, why, clientStatus string) {
	if p.stopped[a.ID] {
		return
	}
	p.stopped[a.ID] = true
	p.plan.Stop = append(p.plan.Stop, &structs.PlanStop{AllocID: a.ID, Description: why, ClientStatus: clientStatus})
	if v := p.views[a.NodeID]; v != nil && !a.Terminal() {
		v.add(p, a, -1)
	}
}

// unstop takes back the newest stop: its replacement found no place, so it goes on running.
func (p *planner) unstop(a *structs.Allocation) {
	delete(p.stopped, a.ID)
	p.plan.Stop = p.plan.Stop[:len(p.plan.Stop)-1]
	if v := p.views[a.NodeID]; v != nil && !a.Terminal() {
		v.add(p, a, 1)
	}
}

// lost reports whether the node of an allocation is down or gone: nothing that runs there can be known.
func (p *planner) lost(nodeID string) bool {
	n := state.Node(p.tx, nodeID)
	return n == nil || n.Status == structs.NodeDown
}
