package nomad

import (
	"slices"
	"strings"

	"berth/structs"
)

// implied are the constraints that the servers of the dialect add to a stored job. Nodes of berth lack
// most of these attributes, and berth checks the same by itself.
var implied = []structs.Constraint{
	{LTarget: "${attr.nomad.service_discovery}", RTarget: "true", Operand: "="},
	{LTarget: "${attr.nomad.version}", RTarget: ">= 1.4.0", Operand: structs.ConstraintSemver},
	{LTarget: "${attr.consul.version}", RTarget: ">= 1.7.0", Operand: structs.ConstraintSemver},
	{LTarget: "${attr.consul.version}", RTarget: ">= 1.8.0", Operand: structs.ConstraintSemver},
	{LTarget: "${attr.vault.version}", RTarget: ">= 0.6.1", Operand: structs.ConstraintSemver},
}

// dropImplied removes from a job the parts that the servers of the dialect have added. It returns a
// warning for each constraint of a user that no node of berth meets.
func dropImplied(j *structs.Job) (warnings []string) {
	drop := func(list []*structs.Constraint) []*structs.Constraint {
		kept, lost := dropConstraints(list)
		warnings = append(warnings, lost...)
		return kept
	}
	j.Constraints = drop(j.Constraints)
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}
		g.Constraints = drop(g.Constraints)
		if g.Consul != nil && *g.Consul == (structs.Consul{}) {
			g.Consul = nil
		}
		dropProxies(g)
		for _, t := range g.Tasks {
			if t != nil {
				t.Constraints = drop(t.Constraints)
			}
		}
	}
	return warnings
}

// dropConstraints returns a list without the constraints that the servers of the dialect have added, and
// without constraints that no node of berth meets. It returns a warning for each of the latter.
func dropConstraints(list []*structs.Constraint) (kept []*structs.Constraint, warnings []string) {
	kept = slices.DeleteFunc(list, func(c *structs.Constraint) bool {
		switch {
		case c == nil:
			return false
		case slices.Contains(implied, *c),
			c.LTarget == "${attr.os.signals}" && c.Operand == structs.ConstraintSetContains:
			return true
		case strings.HasPrefix(c.LTarget, "${attr.nomad."):
			warnings = append(warnings, "its constraint on "+c.LTarget+" is left out: nodes of berth have no such attribute")
			return true
		}
		return false
	})
	return kept, warnings
}

// dropProxies removes the tasks of proxies, and their ports: berth adds its own.
func dropProxies(g *structs.TaskGroup) {
	var ports []string
	g.Tasks = slices.DeleteFunc(g.Tasks, func(t *structs.Task) bool {
		if t == nil || !t.Kind.IsProxy() {
			return false
		}
		ports = append(ports, t.Kind.PortLabel(), structs.MeshLANPort(t.Kind.Service()))
		return true
	})
	for _, n := range g.Networks {
		if n != nil {
			n.DynamicPorts = slices.DeleteFunc(n.DynamicPorts, func(p structs.Port) bool {
				return slices.Contains(ports, p.Label)
			})
		}
	}
}
