package capacity

import "berth/structs"

// NodeCapacity is the capacity of a node, cpu, memory and disk, for the placements of one plan. An allocation
// has its capacity until its node reports the end. A plan may use the free capacity, and the capacity of the
// allocations that it stops: the placements wait on the node for their end. NewNodeCapacity makes it.
type NodeCapacity struct {
	have   amounts // the capacity of the node
	before amounts // of the allocations that have not ended, before the plan
	used   amounts // the same without the stops of the plan and with its placements
	live   amounts // of the allocations in used that are to run
	taken  amounts // of the capacity that was free before the plan, by TakeFree
}

// NewNodeCapacity returns the capacity of a node without allocations.
func NewNodeCapacity(n *structs.Node) NodeCapacity {
	free := n.Available()
	return NodeCapacity{have: amountsOf(&free)}
}

// Hold counts an allocation that was on the node before the plan and has not ended. It precedes Stop and
// Place.
func (r *NodeCapacity) Hold(a *structs.Allocation) {
	if a.Resources == nil {
		return
	}
	of := amountsOf(a.Resources)
	r.before.count(of)
	r.used.count(of)
	if !a.ServerTerminal() {
		r.live.count(of)
	}
}

// HoldAll is Hold for all allocations of the node, whose use suffices.
func (r *NodeCapacity) HoldAll(u NodeUse) {
	r.before.count(u.all)
	r.used.count(u.all)
	r.live.count(u.live)
}

// Stop counts a stop of the plan. One that ends already keeps its capacity.
func (r *NodeCapacity) Stop(a *structs.Allocation) {
	if a.Resources == nil || a.ServerTerminal() {
		return
	}
	of := amountsOf(a.Resources).negative()
	r.used.count(of)
	r.live.count(of)
}

// Unstop takes back a Stop.
func (r *NodeCapacity) Unstop(a *structs.Allocation) {
	if a.Resources == nil || a.ServerTerminal() {
		return
	}
	r.Place(*a.Resources)
}

// TakeFree gives a placement capacity that no allocation had before the plan: as much as it needs, or what is
// left.
func (r *NodeCapacity) TakeFree(need structs.Resources) structs.Resources {
	free := r.have
	free.count(r.before.negative())
	free.count(r.taken.negative())
	part := need.Least(free.resources())
	r.taken.count(amountsOf(&part))
	return part
}

// Place counts a placement of the plan.
func (r *NodeCapacity) Place(ask structs.Resources) {
	of := amountsOf(&ask)
	r.used.count(of)
	r.live.count(of)
}

// Short names the first dimension that lacks capacity for a placement, "" if it fits.
func (r *NodeCapacity) Short(ask structs.Resources) string {
	lacks := r.missing(amountsOf(&ask))
	switch {
	case lacks.cpu > 0:
		return structs.DimensionCPU
	case lacks.memoryMB > 0:
		return structs.DimensionMemory
	case lacks.diskMB > 0:
		return structs.DimensionDisk
	}

	return ""
}

// Missing returns the capacity that a placement lacks.
func (r *NodeCapacity) Missing(ask structs.Resources) structs.Resources {
	return r.missing(amountsOf(&ask)).most(amounts{}).resources()
}

// missing returns what a placement lacks in each dimension, or a negative amount. The allocations that are to
// run fit into the node. Those that end may need capacity besides: the ones that take their place wait for
// them. The plan leaves no more of them than there were.
func (r *NodeCapacity) missing(ask amounts) amounts {
	used := r.used
	used.count(ask)
	live := r.live
	live.count(ask)
	return used.minus(r.have.most(r.before)).most(live.minus(r.have))
}

// With returns the dimensions of the capacity with another placement: the capacity of the node, and its use.
func (r *NodeCapacity) With(ask *structs.Resources) [3][2]int {
	used := r.used
	used.count(amountsOf(ask))
	return [...][2]int{
		{r.have.cpu, used.cpu},
		{r.have.memoryMB, used.memoryMB},
		{r.have.diskMB, used.diskMB},
	}
}
