package feasible

import (
	"slices"
	"strconv"

	"berth/internal/level"
	"berth/scheduler/match"
	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
	"berth/structs/storage"
)

// Group is a group of a version of the job, with values that are computed once for all its
// allocations. A plan does not change it. The counts of its limits and spreads belong to the outlook, which
// keeps them.
type Group struct {
	Job       *structs.Job
	TaskGroup *structs.TaskGroup
	Emptier   bool // prefers the emptier of two nodes
	Ask       structs.Resources
	Kept      *structs.Resources // Ask, as all its allocations keep it
	OnlyNode  string             // the ID of the one node that constraints allow, ""

	outlook     *Outlook
	noMemoryMax bool // the memory_max of its tasks does not count
	devices     []*match.DeviceDemand
	network     *structs.NetworkResource // nil: none
	ports       []structs.Port
	hostVolumes []*structs.VolumeRequest
	inline      []string   // the plugins of its inline volumes, sorted
	newest      level.Part // that the agent of a node has to know
	drivers     []string
	specified   [][]*structs.Constraint // of the job, the group and the tasks
	constraints []match.Constraint      // all of specified, compiled
	distinct    string                  // distinct_hosts: "job", "group" or ""
	properties  []propertyLimit         // distinct_property
	prefers     preferences
}

// Compile compiles a group of a version of the job.
func (p *Outlook) Compile(version *structs.Job, group *structs.TaskGroup) *Group {
	g := newGroup(p, version, group)
	g.Emptier = state.SchedulerAlgorithm(p, version.NodePool) == cluster.AlgorithmSpread
	g.noMemoryMax = group.HasMemoryMax() && !state.MemoryOversubscribed(p, version.NodePool)
	if !g.noMemoryMax {
		g.Ask.MemoryMaxMB = quota.MemoryMax(group) // it takes nothing of a node
		g.Kept = new(g.Ask)
	}
	return g
}

// newGroup compiles what decides about nodes. It reads no configuration of the scheduler.
func newGroup(o *Outlook, j *structs.Job, g *structs.TaskGroup) *Group {
	ask := g.Ask()
	p := &Group{
		outlook:     o,
		Job:         j,
		TaskGroup:   g,
		Ask:         ask,
		Kept:        &ask,
		devices:     match.DeviceDemands(g),
		network:     g.Network(),
		ports:       g.PortDemands(),
		hostVolumes: g.HostVolumes(),
		inline:      storage.InlinePlugins(g),
		newest:      newestField(o, g),
	}

	p.specified = append(p.specified, j.Constraints, g.Constraints)
	for _, t := range g.Tasks {
		p.specified = append(p.specified, t.Constraints)
		if !slices.Contains(p.drivers, t.Driver) {
			p.drivers = append(p.drivers, t.Driver)
		}
	}

	p.constraints = match.CompileConstraints(p.specified...)
	p.addConsulConstraints()
	p.addVaultConstraint()
	p.OnlyNode = match.OnlyNode(p.specified...)
	p.properties = propertyLimits(j, g)
	p.prefers = compilePreferences(j, g)
	switch {
	// One on the job includes its groups.
	case wantsDistinct(j.Constraints):
		p.distinct = "job"
	case wantsDistinct(g.Constraints):
		p.distinct = "group"
	}

	return p
}

// addConsulConstraints adds the constraints that the services of the group imply.
func (p *Group) addConsulConstraints() {
	if p.TaskGroup.HasConsulServices() {
		// The text of the constraint names an attribute that the job does not mention, so it is replaced. It
		// also enters specified, because it is a part of the shape.
		c := match.CompileConstraint(consulConstraint)
		c.Text = "the node has no Consul 1.8.0 or later, in which the group registers services (consul.version)"
		p.constraints = append(p.constraints, c)
		p.specified = append(p.specified, []*structs.Constraint{consulConstraint})
	}

	if p.TaskGroup.UsesConnect() {
		c := match.CompileConstraint(connectConstraint)
		c.Text = "the Consul of the node has no service mesh, which the group uses (consul.connect)"
		p.constraints = append(p.constraints, c)
		p.specified = append(p.specified, []*structs.Constraint{connectConstraint})
	}
}

// addVaultConstraint adds the constraint that the tokens of the tasks imply.
func (p *Group) addVaultConstraint() {
	usesVault := func(t *structs.Task) bool { return t.Vault != nil }
	if !slices.ContainsFunc(p.TaskGroup.Tasks, usesVault) {
		return
	}

	c := match.CompileConstraint(vaultConstraint)
	c.Text = "the node has not reached a Vault, of which a task gets a token (vault.version)"
	p.constraints = append(p.constraints, c)
	p.specified = append(p.specified, []*structs.Constraint{vaultConstraint})
}

// wantsDistinct reports whether a list has distinct_hosts, and does not turn it off.
func wantsDistinct(list []*structs.Constraint) bool {
	return slices.ContainsFunc(list, func(c *structs.Constraint) bool {
		if c == nil || c.Operand != structs.ConstraintDistinctHosts {
			return false
		}
		on, err := strconv.ParseBool(c.RTarget)
		return on || err != nil // without a value it is on
	})
}

// Admit counts a node and reports whether it passes the group's own filters.
func (g *Group) Admit(t *rejects.Count, n *structs.Node) bool {
	r := g.CheckNode(n)
	if r == nil {
		t.CountNode(n, "")
		return true
	}
	t.AddRejection(n, *r)
	t.CountNode(n, r.Filter)
	return false
}

// CheckNode returns the rejection of a node by the first of the group's own filters that rejects it, nil if
// none does.
func (g *Group) CheckNode(n *structs.Node) *rejects.Rejection {
	for _, f := range groupFilters {
		if why := f.check(g, n); why != "" {
			return &rejects.Rejection{Filter: f.name, Reason: why}
		}
	}
	return nil
}

// CheckRunning returns the reason for which a node may no longer run an allocation of the group, "" if it
// may. It does not matter whether the node takes new ones.
func (g *Group) CheckRunning(n *structs.Node) string {
	for _, f := range groupFilters {
		switch f.name {
		// These matter to an allocation that starts. One that runs has what they check.
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
