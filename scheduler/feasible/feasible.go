package feasible

import (
	"cmp"
	"fmt"
	"strings"

	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
)

// groupFilter checks a condition of all allocations of a group. It returns "" or the reason of the rejection.
type groupFilter struct {
	name  string
	check func(g *Group, n *structs.Node) string
}

// groupFilters has the filters in their order: a node is counted under the first one that rejects it.
var groupFilters = []groupFilter{
	{rejects.FilterEligibility, eligible},
	{rejects.FilterDatacenter, inDatacenter},
	{rejects.FilterPool, inPool},
	{rejects.FilterLevel, knowsFields},
	{rejects.FilterDriver, hasDrivers},
	{rejects.FilterConstraint, meetsConstraints},
	{rejects.FilterDevice, hasDevices},
	{rejects.FilterNetwork, hasNetwork},
	{rejects.FilterHostVolume, hasHostVolumes},
}

// placeFilter checks a condition that depends on the allocation or on the plan so far.
type placeFilter struct {
	name  string
	check func(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection
}

// placeFilters has the filters in their order. Those for volumes rely on the ones before them: a node that
// passes pluginsServe has a healthy half of each plugin.
var placeFilters = []placeFilter{
	{rejects.FilterHosts, onDistinctHosts},
	{rejects.FilterProperty, withinPropertyLimits},
	{rejects.FilterHostVolume, hostVolumesFree},
	{rejects.FilterVolume, volumesBoundHere},
	{rejects.FilterPlugin, pluginsServe},
	{rejects.FilterVolume, volumesReachable},
	{rejects.FilterGuard, guardsTasks},
	{rejects.FilterLimit, volumesWithinLimit},
	{rejects.FilterResources, resourcesFit},
	{rejects.FilterQuota, devicesWithinQuota}, // it relies on the one before it
}

// eligible tells which state of the node rejects: its status first, then what an operator has ordered.
func eligible(g *Group, n *structs.Node) string {
	switch {
	case n.Ready(), g.returnsPlugin(n):
		return ""
	case n.Status != structs.NodeReady:
		return "node is " + n.Status
	case n.Drain:
		return "node is draining"
	// The node is eligible as far as operators go, but Ready is false while it settles a loss.
	case n.SchedulingEligibility == structs.NodeEligible:
		return "node is back after a loss and still releases what it lost"
	}
	return "node is not eligible for scheduling"
}

// returnsPlugin reports whether a node that takes nothing else gets its CSI plugin back.
func (g *Group) returnsPlugin(n *structs.Node) bool {
	p := g.outlook
	return state.NeedsPlugin(p, n, g.Job, g.TaskGroup)
}

func inDatacenter(g *Group, n *structs.Node) string {
	if g.Job.InDatacenter(n) {
		return ""
	}
	return fmt.Sprintf("datacenter %s is not one of %s",
		n.Datacenter, joinBrief(g.Job.Datacenters, ", "))
}

// joinBrief joins texts to the length that a reason may have.
func joinBrief(all []string, between string) string {
	var b strings.Builder
	for i, text := range all {
		// Half of a reason is left for the text around the list.
		if b.Len() > structs.MaxReason/2 {
			b.WriteString(between + "…")
			break
		}
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(structs.Cut(text, structs.MaxReason/2))
	}
	return b.String()
}

// allPools is the node pool of a job that may use the nodes of every pool.
const allPools = structs.AllNodePools

func inPool(g *Group, n *structs.Node) string {
	if g.Job.InPool(n) {
		return ""
	}
	return fmt.Sprintf("node pool %s is not %s", cmp.Or(n.NodePool, structs.DefaultNodePool),
		cmp.Or(g.Job.NodePool, structs.DefaultNodePool))
}

// hasDrivers checks the drivers by the last fingerprint of the node.
func hasDrivers(g *Group, n *structs.Node) string {
	for _, name := range g.drivers {
		d := n.Drivers[name]
		if d == nil {
			d = &structs.DriverInfo{}
		}
		switch {
		case !d.Detected:
			return fmt.Sprintf("driver %s is not on this node%s", name, inParentheses(d.HealthDescription))
		case !d.Healthy:
			return fmt.Sprintf("driver %s is unhealthy here%s", name, inParentheses(d.HealthDescription))
		}
	}
	return ""
}

func inParentheses(description string) string {
	if description == "" {
		return ""
	}
	return " (" + description + ")"
}

// consulConstraint is met by the nodes that can register services in Consul, as in the dialect.
var consulConstraint = &structs.Constraint{
	LTarget: "${attr.consul.version}",
	RTarget: ">= 1.8.0",
	Operand: structs.ConstraintSemver,
}

// connectConstraint is met by the nodes whose Consul has the service mesh.
var connectConstraint = &structs.Constraint{
	LTarget: "${attr.consul.connect}",
	RTarget: "true",
	Operand: "=",
}

// vaultConstraint is met by the nodes that have reached a Vault.
var vaultConstraint = &structs.Constraint{
	LTarget: "${attr.vault.version}",
	Operand: structs.ConstraintIsSet,
}

// meetsConstraints returns the text of the first constraint that the node does not meet.
func meetsConstraints(g *Group, n *structs.Node) string {
	for _, c := range g.constraints {
		if !c.MetBy(n) {
			return c.Text
		}
	}
	return ""
}

// onDistinctHosts counts the allocations in the view: also the plan's, and none that it stops.
func onDistinctHosts(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	switch {
	case d.Group.distinct == "job" && v.jobAllocs() > 0:
		return &rejects.Rejection{Reason: "distinct_hosts: the node has an allocation of the job"}
	case d.Group.distinct == "group" && v.CountOf(d.Group.TaskGroup.Name) > 0:
		return &rejects.Rejection{Reason: "distinct_hosts: the node has an allocation of the group"}
	}
	return nil
}

// exhausted has the rejection for each dimension of a node's capacity.
var exhausted = func() map[string]*rejects.Rejection {
	all := map[string]*rejects.Rejection{}
	for _, dimension := range structs.CapacityDimensions() {
		all[dimension] = &rejects.Rejection{
			Filter:    rejects.FilterResources,
			Reason:    dimension + " exhausted",
			Dimension: dimension,
		}
	}
	return all
}()

// resourcesFit checks all that an allocation takes from a node, and names the dimension that is short.
func resourcesFit(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	short := v.Capacity.Short(d.Group.Ask)
	if short != "" {
		return exhausted[short]
	}

	// Devices and ports come last: their search costs more than the comparison of sums.
	r := devicesFree(d, v)
	if r == nil {
		r = p.portsFree(d, v)
	}
	return r
}
