package scheduler

import (
	"slices"

	"berth/state"
	"berth/structs"
)

// trial is a plan in which some members of a circle stop and successors have their places. It
// marks the members as stopped in the planner until its end. It considers what allocations have of a node,
// volumes, and the limits of jobs, not their preferences.
type trial struct {
	*circle
	stops      []*member
	nodes      map[string]*trialNode
	claims     []*structs.CSIClaim // of the successors
	successors []successor
}

// successor is a place that the trial has given.
type successor struct {
	plan *groupPlan
	node *structs.Node
}

// trialNode is a node with the effects of the plan and of an exchange.
type trialNode struct {
	nodeView
	given []structs.AllocatedPort // static ones
}

// newTrial begins an exchange in which members stop. The target does not, unless it is one of them.
func (c *circle) newTrial(members ...*member) *trial {
	x := &trial{circle: c, nodes: map[string]*trialNode{}}
	delete(c.stopped, c.target.alloc.ID)
	for _, m := range members {
		x.stop(m)
	}
	return x
}

// end makes the planner as it was.
func (x *trial) end() {
	for _, m := range x.stops {
		delete(x.stopped, m.alloc.ID)
	}
	x.stopped[x.target.alloc.ID] = true
}

func (x *trial) stop(m *member) {
	x.stops = append(x.stops, m)
	x.stopped[m.alloc.ID] = true
	if n := x.nodes[m.alloc.NodeID]; n != nil {
		n.stopMember(m)
	}
}

func (n *trialNode) stopMember(m *member) {
	n.room.Stop(m.alloc)
	n.devices.Remove(m.alloc)
}

// place gives the successor of a member a place, and reports whether there is one.
func (x *trial) place(m *member) bool {
	for _, claim := range m.claims {
		if !x.isClaimable(claim) {
			return false
		}
	}
	placed := slices.ContainsFunc(m.nodes, func(n *structs.Node) bool { return x.placeOn(m.plan, x.node(n)) })
	if placed {
		x.claims = append(x.claims, m.claims...)
	}
	return placed
}

func (x *trial) isClaimable(claim *structs.CSIClaim) bool {
	u := volumeUse{claim: claim, volume: state.Volume(x, claim.Namespace, claim.VolumeID)}
	return u.volume != nil && x.unclaimableReason(u) == "" &&
		!slices.ContainsFunc(x.claims, func(other *structs.CSIClaim) bool {
			return volumeKey(other) == volumeKey(claim) && other.Class().Conflicts(claim.Class())
		})
}

// node returns a node with the effects of the exchange so far.
func (x *trial) node(node *structs.Node) *trialNode {
	if n := x.nodes[node.ID]; n != nil {
		return n
	}
	v := x.viewOf(node)
	if v.ports == nil {
		v.ports = state.PortsInUse(x, node)
	}
	n := &trialNode{nodeView: *v}
	n.writers = slices.Clone(v.writers)
	n.devices = v.devices.Copy()
	if x.target.alloc.NodeID == node.ID { // the plan has stopped it
		n.room.Unstop(x.target.alloc)
		n.devices = n.devices.Add(x.target.alloc)
	}
	for _, m := range x.stops {
		if m.alloc.NodeID == node.ID {
			n.stopMember(m)
		}
	}
	x.nodes[node.ID] = n
	return n
}

// placeOn gives a group a place on a node, and reports whether there is one.
func (x *trial) placeOn(g *groupPlan, n *trialNode) bool {
	if n.room.Short(g.ask) != "" || x.excludes(g, n) || !x.withinLimits(g, n.node) {
		return false
	}
	devices, short := chooseDevices(g.devices, &n.nodeView)
	if short != nil {
		return false
	}
	ports := portChoice{view: &n.nodeView, stopped: x.stopped, given: slices.Clone(n.given)}
	for i := range g.ports {
		if g.ports[i].Static() && !ports.choose(&g.ports[i]) {
			return false
		}
	}
	n.given = ports.given
	n.room.Place(g.ask)
	n.devices = n.devices.Add(&structs.Allocation{ID: "successor", Devices: devices.devices})
	n.writers = append(n.writers, g.group)
	x.successors = append(x.successors, successor{g, n.node})
	return true
}

// withinLimits reports whether the distinct_hosts and distinct_property of a group admit one more on a node.
func (x *trial) withinLimits(g *groupPlan, n *structs.Node) bool {
	if g.distinct != "" {
		group := ""
		if g.distinct == "group" {
			group = g.group.Name
		}
		if x.countWhere(g, group, func(other *structs.Node) bool { return other.ID == n.ID }) > 0 {
			return false
		}
	}
	for _, limit := range g.properties {
		is := limit.count.on(n)
		same := func(other *structs.Node) bool { return limit.count.on(other) == is }
		if !is.set || x.countWhere(g, limit.count.group, same) >= limit.most {
			return false
		}
	}
	return true
}

// countWhere counts the allocations of the job of a plan, or of one of its groups, that run on some nodes
// after the exchange.
func (x *trial) countWhere(g *groupPlan, group string, where func(*structs.Node) bool) (count int) {
	add := func(of string, n *structs.Node) {
		if n != nil && (group == "" || group == of) && where(n) {
			count++
		}
	}
	for a := range state.LiveAllocsByJob(x, g.job.Namespace, g.job.ID) {
		if !x.stopped[a.ID] {
			add(a.TaskGroup, state.Node(x, a.NodeID))
		}
	}
	for _, a := range x.plan.Place {
		if a.JobID == g.job.ID && a.Namespace == g.job.Namespace {
			add(a.TaskGroup, state.Node(x, a.NodeID))
		}
	}
	for _, s := range x.successors {
		if s.plan.job.ID == g.job.ID && s.plan.job.Namespace == g.job.Namespace {
			add(s.plan.group.Name, s.node)
		}
	}
	return count
}

// excludes reports whether an allocation or a successor excludes a group from one of its host volumes.
func (x *trial) excludes(g *groupPlan, n *trialNode) bool {
	if len(g.hostVolumes) == 0 {
		return false
	}
	name, _ := state.HostVolumeHolder(x, n.node.ID, g.group, x.stopped)
	return name != "" || slices.ContainsFunc(n.writers, func(other *structs.TaskGroup) bool {
		return g.group.HostVolumeConflict(other) != ""
	})
}
