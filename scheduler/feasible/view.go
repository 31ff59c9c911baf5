package feasible

import (
	"slices"
	"sync"

	"berth/state"
	"berth/structs"
	"berth/structs/capacity"
)

// NodeView is a node with the effects of the plan so far.
type NodeView struct {
	Node     *structs.Node
	Capacity capacity.NodeCapacity
	Fits     Fit // the last trial

	stops   []*freedCapacity     // of the allocations that the plan stops here
	devices capacity.DeviceUse   // in use
	ports   *capacity.NodePorts  // nil until a group demands some
	groups  []groupCount         // this job's live allocations
	writers []*structs.TaskGroup // those with host volumes that the plan places here
	csi     *volumeView          // nil until needed
}

// volumeView has the CSI volumes of a node. Most plans look at none, and a view is small without.
type volumeView struct {
	storage  map[string]*pluginView // by plugin, as far as needed
	users    []*structs.Allocation  // live ones that are to use volumes
	wanted   int                    // the number of these volumes
	intended []*structs.CSIClaim    // of the allocations that the plan places here

	given []string // volumes that leave, and whose place a placement of the plan has
}

// volumes returns the part for CSI volumes, which it makes at the first use.
func (v *NodeView) volumes() *volumeView {
	if v.csi == nil {
		v.csi = &volumeView{storage: map[string]*pluginView{}}
	}
	return v.csi
}

// Fit is a successful trial of a node for a group. It is valid until the plan changes the node.
type Fit struct {
	Group  *Group                 // nil: none
	Mean   float64                // of the scores
	Scores *structs.NodeScoreMeta // nil until an allocation keeps them
}

// groupCount is a number of allocations of a group. A job has few groups on a node.
type groupCount struct {
	group string
	count int
}

// CountOf returns the number of this job's live allocations of a group.
func (v *NodeView) CountOf(group string) int {
	for _, c := range v.groups {
		if c.group == group {
			return c.count
		}
	}
	return 0
}

func (v *NodeView) jobAllocs() int {
	n := 0
	for _, c := range v.groups {
		n += c.count
	}
	return n
}

// hold adds an allocation that is on the node before the plan.
func (v *NodeView) hold(p *Outlook, a *structs.Allocation) {
	v.Capacity.Hold(a)
	v.devices = v.devices.Add(a)

	// One that stops holds its capacity until it has ended, but is no longer one of the group.
	if !a.ServerTerminal() {
		v.countGroup(p, a, 1)
	}
}

// stop removes an allocation that the plan stops.
func (v *NodeView) stop(p *Outlook, a *structs.Allocation) {
	v.Fits = Fit{}
	v.Capacity.Stop(a)
	v.addFreed(a)
	v.devices.Remove(a)
	v.countGroup(p, a, -1)
}

// unstop takes back a stop.
func (v *NodeView) unstop(p *Outlook, a *structs.Allocation) {
	v.Fits = Fit{}
	v.Capacity.Unstop(a)

	// What is taken back is one of the newest stops.
	for i, given := range slices.Backward(v.stops) {
		if given.alloc.ID == a.ID {
			v.stops = slices.Delete(v.stops, i, i+1)
			break
		}
	}
	v.devices = v.devices.Add(a)
	v.countGroup(p, a, 1)
}

// place adds an allocation of the plan.
func (v *NodeView) place(p *Outlook, a *structs.Allocation) {
	v.Fits = Fit{}
	v.Capacity.Place(*a.Resources)
	v.devices = v.devices.Add(a)
	v.countGroup(p, a, 1)
}

// countGroup counts a live allocation of the job.
func (v *NodeView) countGroup(p *Outlook, a *structs.Allocation, by int) {
	if !p.ofJob(a) {
		return
	}
	for i := range v.groups {
		if v.groups[i].group == a.TaskGroup {
			v.groups[i].count += by
			return
		}
	}
	v.groups = append(v.groups, groupCount{a.TaskGroup, by})
}

// ViewOf returns the view of a node: from the state the first time, and with the plan's effects later.
func (p *Outlook) ViewOf(n *structs.Node) *NodeView {
	return p.ViewWith(n, nil)
}

// ViewWith is viewOf for a node whose use was read with it, or nil.
func (p *Outlook) ViewWith(n *structs.Node, use *capacity.NodeUse) *NodeView {
	if v := p.views[n.ID]; v != nil {
		return v
	}
	if use == nil {
		sums := state.UseOfNode(p, n.ID)
		use = &sums
	}

	// A caller that knows the number has called this before.
	p.ExpectViews(1)
	v := p.newView(n)

	// The sums save the read of each allocation on the node. The job's own ones are known besides.
	if p.knowsOwn && use.Suffices() {
		v.holdAll(p, *use)
	} else {
		v.holdEach(p)
	}
	p.views[n.ID] = v
	return v
}

// viewBlock is memory for views.
type viewBlock [32]NodeView

// viewMemory is memory for the views of a plan. Most plans view about a hundred nodes, in the memory of
// former plans.
type viewMemory struct {
	byNode map[string]*NodeView
	blocks []*viewBlock
	used   int // views in the blocks
}

// usualViews is the number of nodes that most plans view, about.
const usualViews = 96

// mostSpare is the most views that a plan leaves memory for to others.
const mostSpare = 4 * len(viewBlock{})

var spareViews = sync.Pool{New: func() any { return newViewMemory(usualViews) }}

func newViewMemory(views int) *viewMemory {
	return &viewMemory{byNode: make(map[string]*NodeView, views)}
}

// ExpectViews takes memory for about a number of views, if the plan has no view yet.
func (p *Outlook) ExpectViews(views int) {
	switch {
	case p.viewMemory != nil:
		return
	case views > mostSpare:
		p.viewMemory = newViewMemory(views)
	default:
		p.viewMemory = spareViews.Get().(*viewMemory)
	}
	p.views = p.viewMemory.byNode
}

// newView returns the view of a node without allocations.
func (p *Outlook) newView(n *structs.Node) *NodeView {
	// Views are never moved, because candidates and the map point to them.
	m := p.viewMemory
	at := m.used % len(viewBlock{})
	block := m.used / len(viewBlock{})
	if block == len(m.blocks) {
		m.blocks = append(m.blocks, new(viewBlock))
	}
	m.used++
	v := &m.blocks[block][at]
	v.Node = n
	v.Capacity = capacity.NewNodeCapacity(n)
	return v
}

// ReleaseViews gives the memory of views to other plans. This one is complete and does not use them any more.
func (p *Outlook) ReleaseViews() {
	m := p.viewMemory
	if m == nil || m.used > mostSpare {
		return // a large map takes long to clear
	}
	for _, b := range m.blocks {
		// The views hold rows of this snapshot. Memory in the pool must not keep it alive.
		clear(b[:])
	}
	clear(m.byNode)
	m.used = 0
	spareViews.Put(m)
}

// holdAll adds all allocations that are on the node before the plan, by their sums. Of the job's own ones it
// reads the rows. Those of other jobs still run: the plan stops such only on nodes whose view it has.
func (v *NodeView) holdAll(p *Outlook, use capacity.NodeUse) {
	v.Capacity.HoldAll(use)
	for _, a := range p.OwnByNode()[v.Node.ID] {
		if a.ClientTerminal() {
			continue
		}
		v.countGroup(p, a, 1)
		if p.stopped[a.ID] {
			v.stop(p, a)
		}
	}
}

// holdEach adds each allocation that is on the node before the plan.
func (v *NodeView) holdEach(p *Outlook) {
	var stopped []*structs.Allocation
	for a := range state.HoldersByNode(p, v.Node.ID) {
		v.hold(p, a)
		if a.ServerTerminal() {
			continue
		}

		if p.stopped[a.ID] {
			stopped = append(stopped, a)
		}

		if len(a.CSIVolumes) > 0 {
			at := v.volumes()
			at.users = append(at.users, a)
			at.wanted += len(a.CSIVolumes)
		}
	}

	for _, a := range stopped {
		v.stop(p, a)
	}
}

// OwnByNode returns the live allocations of the job by node, as knowsOwn says.
func (p *Outlook) OwnByNode() map[string][]*structs.Allocation {
	if p.own == nil {
		// A per-node job has about one allocation for each node. Others have few nodes, and the map grows by
		// itself.
		nodes := 0
		if p.Job.PerNode() {
			nodes = len(p.live)
		}
		p.own = make(map[string][]*structs.Allocation, nodes)
		for _, a := range p.live {
			p.own[a.NodeID] = append(p.own[a.NodeID], a)
		}
	}
	return p.own
}

// StopAlloc plans to stop an allocation. One whose node is down has ended with that.
func (p *Outlook) StopAlloc(a *structs.Allocation, cause structs.StopCause, why string) {
	if p.stopped[a.ID] {
		return
	}

	p.stopped[a.ID] = true
	s := &structs.PlanStop{
		AllocID:     a.ID,
		Description: why,
		Cause:       cause,
	}

	if cause == structs.StopNodeDown {
		// Its node reports nothing any more, so the servers decide how it ended.
		s.ClientStatus = structs.AllocLost
	}

	p.Plan.Stop = append(p.Plan.Stop, s)
	p.countValues(a, -1)
	p.quota.count(p, a, -1)
	v := p.views[a.NodeID]
	if v != nil && !a.Terminal() {
		v.stop(p, a)
	}
}

// UnstopAlloc takes back a stop, which is one of the newest: the allocation keeps running.
func (p *Outlook) UnstopAlloc(a *structs.Allocation) {
	delete(p.stopped, a.ID)
	for i, s := range slices.Backward(p.Plan.Stop) {
		if s.AllocID == a.ID {
			p.Plan.Stop = slices.Delete(p.Plan.Stop, i, i+1)
			break
		}
	}
	p.countValues(a, 1)
	p.quota.count(p, a, 1)
	v := p.views[a.NodeID]
	if v != nil && !a.Terminal() {
		v.unstop(p, a)
	}
}

// NodeOf returns the node of an allocation, nil if it is gone. Many allocations share a node.
func (p *Outlook) NodeOf(a *structs.Allocation) *structs.Node {
	n, known := p.nodes[a.NodeID]
	if !known {
		n = state.Node(p, a.NodeID)
		p.nodes[a.NodeID] = n
	}
	return n
}
