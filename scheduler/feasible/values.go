package feasible

import (
	"fmt"

	"berth/scheduler/match"
	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
)

// countsOf returns the counts, which it counts the first time.
func (p *Outlook) countsOf(c *match.ValueCount) *match.ValueCount {
	if c.Counted {
		return c
	}
	c.Counted = true
	c.Counts = map[string]int{}
	c.Values = map[int]int{}
	for a := range state.AllocsByJob(p, p.Namespace, p.Eval.JobID) {
		if !a.Terminal() && !p.stopped[a.ID] {
			p.countValue(c, a, 1)
		}
	}

	// Later placements and stops change the counts by countValues.
	for _, a := range p.Plan.Place {
		p.countValue(c, a, 1)
	}
	p.values = append(p.values, c)
	return c
}

// countValue changes one count by 1 or -1, if it counts the allocation's group and the node has the
// attribute.
func (p *Outlook) countValue(c *match.ValueCount, a *structs.Allocation, by int) {
	if c.Group != "" && c.Group != a.TaskGroup {
		return
	}
	v := c.On(state.Node(p, a.NodeID))
	if v.Set {
		c.Add(v.Text, by)
	}
}

// countValues adds an allocation of the job to all counts, or removes it if by is -1.
func (p *Outlook) countValues(a *structs.Allocation, by int) {
	if a.Terminal() {
		return
	}
	for _, c := range p.values {
		p.countValue(c, a, by)
	}
}

// propertyLimit is a distinct_property constraint.
type propertyLimit struct {
	attribute string
	most      int // allocations with one value
	count     *match.ValueCount
}

// propertyLimits compiles the distinct_property constraints of the job, which count all its allocations, and
// of the group, which count its own.
func propertyLimits(j *structs.Job, g *structs.TaskGroup) (out []propertyLimit) {
	add := func(group string, list []*structs.Constraint) {
		for _, c := range list {
			if c == nil || c.Operand != structs.ConstraintDistinctProperty {
				continue
			}

			most, err := c.PropertyLimit()
			if err != nil {
				most = 0 // no node meets a constraint that cannot be read
			}

			out = append(out, propertyLimit{
				attribute: structs.Cut(c.LTarget, structs.MaxReason/2),
				most:      most,
				count:     &match.ValueCount{Group: group, Of: match.TargetOf(c.LTarget)},
			})
		}
	}

	add("", j.Constraints)
	add(g.Name, g.Constraints)
	return out
}

// withinPropertyLimits checks that the allocation exceeds no distinct_property constraint.
func withinPropertyLimits(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	for _, limit := range d.Group.properties {
		is := limit.count.On(v.Node)
		if !is.Set {
			return &rejects.Rejection{Reason: fmt.Sprintf("distinct_property: the node has no %s",
				limit.attribute)}
		}

		// The counts are shared by all allocations of the group, so a trial reads a map and no rows.
		used := p.countsOf(limit.count).Counts[is.Text]
		if used < limit.most {
			continue
		}
		shown := structs.Cut(is.Text, structs.MaxQuoted)
		return &rejects.Rejection{
			Reason: fmt.Sprintf("distinct_property: %s is %q on the nodes of %d allocations, %d may be",
				limit.attribute, shown, used, limit.most),
		}
	}
	return nil
}
