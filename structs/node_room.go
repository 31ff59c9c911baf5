package structs

// NodeRoom is the room of a node, cpu, memory and disk, for the placements of one plan. An allocation has its
// room until its node reports the end. A plan may use the free room, and that of the allocations that it
// stops: the placements wait on the node for the end of these. NewNodeRoom makes it.
type NodeRoom struct {
	// Have is the room of the node.
	Have Resources
	// Used is the room of the allocations that have not ended, without those that the plan stops and with those
	// that it places.
	Used Resources

	before Resources // of the allocations that have not ended, before the plan
	live   Resources // of those in Used that are to run
}

// NewNodeRoom returns the room of a node without allocations.
func NewNodeRoom(n *Node) NodeRoom { return NodeRoom{Have: n.Available()} }

// Hold counts an allocation that was on the node before the plan and has not ended. It precedes Stop and
// Place.
func (r *NodeRoom) Hold(a *Allocation) {
	if a.Resources == nil {
		return
	}
	r.before.count(a.Resources)
	r.Used.count(a.Resources)
	if !a.ServerTerminal() {
		r.live.count(a.Resources)
	}
}

// HoldAll is Hold for all allocations of the node, whose use suffices.
func (r *NodeRoom) HoldAll(u NodeUse) {
	all := u.all.resources()
	r.before.count(all)
	r.Used.count(all)
	r.live.count(u.live.resources())
}

// Stop counts a stop of the plan. One that ends already keeps its room.
func (r *NodeRoom) Stop(a *Allocation) {
	if a.Resources == nil || a.ServerTerminal() {
		return
	}
	r.Used = r.Used.Sub(*a.Resources)
	r.live = r.live.Sub(*a.Resources)
}

// Unstop takes back a Stop.
func (r *NodeRoom) Unstop(a *Allocation) {
	if a.Resources == nil || a.ServerTerminal() {
		return
	}
	r.Used = r.Used.Add(*a.Resources)
	r.live = r.live.Add(*a.Resources)
}

// FreeBefore returns the room that no allocation had before the plan. It may be negative.
func (r *NodeRoom) FreeBefore() Resources { return r.Have.Sub(r.before) }

// Place counts a placement of the plan.
func (r *NodeRoom) Place(ask Resources) {
	r.Used = r.Used.Add(ask)
	r.live = r.live.Add(ask)
}

// Short names the first dimension that lacks room for a placement, "" if it fits. The allocations that are to
// run fit into the node. Those that end may need room besides: the ones that take their place wait for them.
// The plan leaves no more of them than there were.
func (r *NodeRoom) Short(ask Resources) string {
	if r.Have.Exceeded(r.before) == "" {
		return r.Have.Exceeded(r.Used.Add(ask))
	}
	short := r.Have.Most(r.before).Exceeded(r.Used.Add(ask))
	if short == "" {
		short = r.Have.Exceeded(r.live.Add(ask))
	}
	return short
}
