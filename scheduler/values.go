package scheduler

import (
	"fmt"

	"berth/state"
	"berth/structs"
)

// valueCount counts the live allocations of a group, or of the whole job, by the value that an attribute has
// on their nodes. It has those of the plan and lacks those that the plan stops. Allocations on nodes without
// the attribute are not counted.
type valueCount struct {
	group string // "" for the whole job
	of    target
	rest  func(string) string // merges values; nil: none

	counted bool
	counts  map[string]int // by value, above 0
	values  map[int]int    // the number of values with a count
	least   int            // the least count, 0 if there are no counts
	most    int
}

// on returns the value of a node.
func (c *valueCount) on(n *structs.Node) value {
	if n == nil {
		return value{}
	}
	v := c.of(n)
	if v.set && c.rest != nil {
		v.text = c.rest(v.text)
	}
	return v
}

// add changes the count of a value by 1 or -1.
func (c *valueCount) add(text string, by int) {
	before := c.counts[text]
	after := before + by
	c.counts[text] = after
	if after == 0 {
		delete(c.counts, text)
	}
	c.move(before, -1)
	c.move(after, 1)
	c.least = min(c.least, before, after)
	c.most = max(c.most, before, after)
	for c.least < c.most && c.values[c.least] == 0 {
		c.least++
	}
	for c.most > 0 && c.values[c.most] == 0 {
		c.most--
	}
	c.least = min(c.least, c.most)
}

func (c *valueCount) move(count, by int) {
	if count > 0 {
		c.values[count] += by
	}
}

// countsOf returns the counts, which it counts the first time.
func (p *planner) countsOf(c *valueCount) *valueCount {
	if c.counted {
		return c
	}
	c.counted = true
	c.counts = map[string]int{}
	c.values = map[int]int{}
	for a := range state.AllocsByJob(p, p.ns, p.eval.JobID) {
		if !a.Terminal() && !p.stopped[a.ID] {
			p.countValue(c, a, 1)
		}
	}
	for _, a := range p.plan.Place {
		p.countValue(c, a, 1)
	}
	p.values = append(p.values, c)
	return c
}

func (p *planner) countValue(c *valueCount, a *structs.Allocation, by int) {
	if c.group != "" && c.group != a.TaskGroup {
		return
	}
	v := c.on(state.Node(p, a.NodeID))
	if v.set {
		c.add(v.text, by)
	}
}

// countValues adds an allocation of the job to all counts, or removes it if by is -1.
func (p *planner) countValues(a *structs.Allocation, by int) {
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
	count     *valueCount
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
				count:     &valueCount{group: group, of: targetOf(c.LTarget)},
			})
		}
	}
	add("", j.Constraints)
	add(g.Name, g.Constraints)
	return out
}

// withinPropertyLimits checks that the allocation exceeds no distinct_property constraint.
func withinPropertyLimits(p *planner, w *placement, v *nodeView) *refusal {
	for _, limit := range w.plan.properties {
		is := limit.count.on(v.node)
		if !is.set {
			return &refusal{reason: fmt.Sprintf("distinct_property: the node has no %s", limit.attribute)}
		}
		used := p.countsOf(limit.count).counts[is.text]
		if used < limit.most {
			continue
		}
		shown := structs.Cut(is.text, structs.MaxQuoted)
		return &refusal{
			reason: fmt.Sprintf("distinct_property: %s is %q on the nodes of %d allocations, %d may be",
				limit.attribute, shown, used, limit.most),
		}
	}
	return nil
}
