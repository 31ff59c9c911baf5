package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/internal/level"
	"berth/scheduler/match"
	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
)

// groupFilter checks a condition that is the same for every allocation of a group. It returns "" or the
// reason of the rejection.
type groupFilter struct {
	name  string
	check func(g *groupPlan, n *structs.Node) string
}

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
	check func(p *outlook, w *placement, v *nodeView) *rejects.Rejection
}

var placeFilters = []placeFilter{
	{rejects.FilterHosts, onDistinctHosts},
	{rejects.FilterProperty, withinPropertyLimits},
	{rejects.FilterHostVolume, hostVolumesFree},
	{rejects.FilterPlugin, pluginsServe},
	{rejects.FilterVolume, volumesReachable},
	{rejects.FilterLimit, volumesWithinLimit},
	{rejects.FilterResources, resourcesFit},
}

// groupPlan is a group with values that are computed once for all its allocations.
type groupPlan struct {
	outlook       *outlook
	emptier       bool // prefers the emptier of two nodes
	noMemoryMax   bool // the memory_max of its tasks does not count
	job           *structs.Job
	group         *structs.TaskGroup
	ask           structs.Resources
	kept          *structs.Resources // ask, as all its allocations keep it
	devices       []*match.DeviceDemand
	network       *structs.NetworkResource // nil: none
	ports         []structs.Port
	hostVolumes   []*structs.VolumeRequest
	newest        level.Part // that the agent of a node has to know
	drivers       []string
	specified     [][]*structs.Constraint // of the job, the group and the tasks
	constraints   []match.Constraint      // all of specified, compiled
	distinct      string                  // distinct_hosts: "job", "group" or ""
	properties    []propertyLimit         // distinct_property
	crowded       map[string]bool         // allocations beyond these two; nil until needed
	prefers       preferences
	only          string                   // the ID of the one node that constraints allow, ""
	candidateSets map[string]*candidateSet // by source
	passing       []*structs.Node          // of all nodes, by ID
	static        *rejects.Count           // of all nodes; nil until a reader needs all
	failed        *rejects.Count           // the first failure to place
	queued        int
	updates       *rollout // nil: all allocations of older versions are replaced at once
	settled       bool     // its part of the deployment has reached its aim
	noProgress    bool     // an allocation of the deployment has ended and is not replaced
	rejectedStops int      // updates that fit after no stops: see placeByStops
}

func newGroupPlan(o *outlook, j *structs.Job, g *structs.TaskGroup) *groupPlan {
	ask := g.Ask()
	p := &groupPlan{
		outlook:       o,
		job:           j,
		group:         g,
		ask:           ask,
		kept:          &ask,
		devices:       match.DeviceDemands(g),
		network:       g.Network(),
		ports:         g.PortDemands(),
		hostVolumes:   g.HostVolumes(),
		newest:        o.newestField(g),
		candidateSets: map[string]*candidateSet{},
	}

	p.specified = append(p.specified, j.Constraints, g.Constraints)
	for _, t := range g.Tasks {
		p.specified = append(p.specified, t.Constraints)
		if !slices.Contains(p.drivers, t.Driver) {
			p.drivers = append(p.drivers, t.Driver)
		}
	}

	p.constraints = match.CompileConstraints(p.specified...)
	if g.HasConsulServices() {
		c := match.CompileConstraint(consulConstraint)
		c.Text = "the node has no Consul 1.8.0 or later, in which the group registers services (consul.version)"
		p.constraints = append(p.constraints, c)
		p.specified = append(p.specified, []*structs.Constraint{consulConstraint})
	}

	if g.UsesConnect() {
		c := match.CompileConstraint(connectConstraint)
		c.Text = "the Consul of the node has no service mesh, which the group uses (consul.connect)"
		p.constraints = append(p.constraints, c)
		p.specified = append(p.specified, []*structs.Constraint{connectConstraint})
	}

	p.only = match.OnlyNode(p.specified...)
	p.properties = propertyLimits(j, g)
	p.prefers = compilePreferences(j, g)
	switch {
	case wantsDistinct(j.Constraints):
		p.distinct = "job"
	case wantsDistinct(g.Constraints):
		p.distinct = "group"
	}

	return p
}

// addGroup adds a group of the job.
func (p *planner) addGroup(group *structs.TaskGroup) *groupPlan {
	return p.addGroupOf(p.job, group)
}

// addGroupOf adds a group of a version of the job.
func (p *planner) addGroupOf(version *structs.Job, group *structs.TaskGroup) *groupPlan {
	g := newGroupPlan(p.outlook, version, group)
	g.emptier = state.SchedulerAlgorithm(p, version.NodePool) == structs.AlgorithmSpread
	g.noMemoryMax = group.HasMemoryMax() && !state.MemoryOversubscribed(p, version.NodePool)
	p.groups = append(p.groups, g)
	return g
}

func wantsDistinct(list []*structs.Constraint) bool {
	return slices.ContainsFunc(list, func(c *structs.Constraint) bool {
		if c == nil || c.Operand != structs.ConstraintDistinctHosts {
			return false
		}
		on, err := strconv.ParseBool(c.RTarget)
		return on || err != nil // without a value it is on
	})
}

// filterNodes keeps the nodes that pass the group's own filters and counts the others, once.
func (g *groupPlan) filterNodes(nodes []*structs.Node) {
	if g.static != nil {
		return
	}
	g.static = rejects.NewCount()
	for _, n := range nodes {
		if g.admit(g.static, n) {
			g.passing = append(g.passing, n)
		}
	}
}

// admit counts a node and reports whether it passes the group's own filters.
func (g *groupPlan) admit(t *rejects.Count, n *structs.Node) bool {
	r := g.checkNode(n)
	if r == nil {
		t.CountNode(n, "")
		return true
	}
	t.AddRejection(n, *r)
	t.CountNode(n, r.Filter)
	return false
}

func (g *groupPlan) checkNode(n *structs.Node) *rejects.Rejection {
	for _, f := range groupFilters {
		if why := f.check(g, n); why != "" {
			return &rejects.Rejection{Filter: f.name, Reason: why}
		}
	}
	return nil
}

// checkRunning returns the reason for which a node may no longer run an allocation of the group, "" if it
// may. It does not matter whether the node takes new ones.
func (g *groupPlan) checkRunning(n *structs.Node) string {
	for _, f := range groupFilters {
		switch f.name {
		case rejects.FilterEligibility, rejects.FilterLevel, rejects.FilterDriver,
			rejects.FilterDevice, rejects.FilterNetwork, rejects.FilterHostVolume:
			continue
		}
		if why := f.check(g, n); why != "" {
			return structs.Cut(why, structs.MaxReason)
		}
	}
	return ""
}

func eligible(g *groupPlan, n *structs.Node) string {
	switch {
	case n.Ready(), g.returnsPlugin(n):
		return ""
	case n.Status != structs.NodeReady:
		return "node is " + n.Status
	case n.Drain:
		return "node is draining"
	}
	return "node is not eligible for scheduling"
}

// returnsPlugin reports whether a node that takes nothing else gets its CSI plugin back.
func (g *groupPlan) returnsPlugin(n *structs.Node) bool {
	p := g.outlook
	return state.NeedsPlugin(p, n, g.job, g.group)
}

func inDatacenter(g *groupPlan, n *structs.Node) string {
	if g.job.InDatacenter(n) {
		return ""
	}
	return fmt.Sprintf("datacenter %s is not one of %s",
		n.Datacenter, joinBrief(g.job.Datacenters, ", "))
}

// joinBrief joins texts to the length that a reason may have.
func joinBrief(all []string, between string) string {
	var b strings.Builder
	for i, text := range all {
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

func inPool(g *groupPlan, n *structs.Node) string {
	if g.job.InPool(n) {
		return ""
	}
	return fmt.Sprintf("node pool %s is not %s", cmp.Or(n.NodePool, structs.DefaultNodePool),
		cmp.Or(g.job.NodePool, structs.DefaultNodePool))
}

func hasDrivers(g *groupPlan, n *structs.Node) string {
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

func meetsConstraints(g *groupPlan, n *structs.Node) string {
	for _, c := range g.constraints {
		if !c.MetBy(n) {
			return c.Text
		}
	}
	return ""
}

func onDistinctHosts(p *outlook, w *placement, v *nodeView) *rejects.Rejection {
	switch {
	case w.plan.distinct == "job" && v.jobAllocs() > 0:
		return &rejects.Rejection{Reason: "distinct_hosts: the node has an allocation of the job"}
	case w.plan.distinct == "group" && v.ofGroup(w.plan.group.Name) > 0:
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

func resourcesFit(p *outlook, w *placement, v *nodeView) *rejects.Rejection {
	short := v.capacity.Short(w.plan.ask)
	if short != "" {
		return exhausted[short]
	}
	r := devicesFree(w, v)
	if r == nil {
		r = p.portsFree(w, v)
	}
	return r
}
