package structs

import (
	"encoding/json"
	"slices"
)

// Spread is a demand to distribute the allocations of a group over the values that an attribute has on nodes.
type Spread struct {
	Attribute string // such as ${node.datacenter}
	Weight    int8   // 1 to 100, beside other spreads; in JSON a weight that is left out is 50
	// SpreadTarget has the values with their shares. Without any, all values get equal shares.
	SpreadTarget []*SpreadTarget
}

// SpreadTarget is the share of one value. The values of no target have the rest together.
type SpreadTarget struct {
	Value   string
	Percent uint8
}

// DefaultSpreadWeight is the weight of a spread without one.
const DefaultSpreadWeight = 50

type plainSpread Spread

// UnmarshalJSON reads a spread. In the dialect a weight that is left out is 50, while 0 is no weight.
func (s *Spread) UnmarshalJSON(b []byte) error {
	v := plainSpread{Weight: DefaultSpreadWeight}
	err := json.Unmarshal(b, &v)
	if err != nil {
		return err
	}
	*s = Spread(v)
	return nil
}

// Constraint returns the condition of an affinity.
func (a *Affinity) Constraint() *Constraint {
	return &Constraint{
		LTarget: a.LTarget,
		RTarget: a.RTarget,
		Operand: a.Operand,
	}
}

// LimitsProperty reports whether the job limits the number of its allocations on nodes with one value of an
// attribute. Then an allocation on one node depends on those on other nodes.
func (j *Job) LimitsProperty() bool {
	return limitsProperty(j.Constraints) || slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool {
		return g != nil && limitsProperty(g.Constraints)
	})
}

func limitsProperty(list []*Constraint) bool {
	return slices.ContainsFunc(list, func(c *Constraint) bool {
		return c != nil && c.Operand == ConstraintDistinctProperty
	})
}

// checkAffinities checks the affinities of a job, a group or a task.
func (f fieldErrors) checkAffinities(j *Job, list []*Affinity) {
	f.require(len(list) == 0 || !j.PerNode(),
		"affinity: a %s job has none: it runs on every feasible node", j.Type)
	for i, a := range firstOf(f, "affinities", list, MaxConstraints) {
		f := f.at("affinity %d", i+1)
		if a == nil {
			f.addf("it is null")
			continue
		}
		f.checkWeight(a)
		f.checkNodeCondition(a.Constraint())
	}
}

// checkNodeCondition checks a constraint that depends on the node alone.
func (f fieldErrors) checkNodeCondition(c *Constraint) {
	switch c.Operand {
	case ConstraintDistinctHosts, ConstraintDistinctProperty:
		f.addf("operator %q is only for the constraints of jobs and groups", c.Operand)
	default:
		f.checkConstraint(c)
	}
}

func (f fieldErrors) checkWeight(a *Affinity) {
	f.require(a.Weight != 0 && a.Weight >= -100 && a.Weight <= 100,
		"weight %d must be from -100 to 100 and not 0", a.Weight)
}

// checkSpreads checks the spreads of a job or a group.
func (f fieldErrors) checkSpreads(j *Job, list []*Spread) {
	f.require(len(list) == 0 || !j.PerNode(),
		"spread: a %s job has none: it runs on every feasible node", j.Type)
	for i, s := range firstOf(f, "spreads", list, MaxConstraints) {
		f := f.at("spread %d", i+1)
		if s == nil {
			f.addf("it is null")
			continue
		}
		s.validate(f)
	}
}

func (s *Spread) validate(f fieldErrors) {
	f.require(s.Attribute != "", "attribute is required")
	f.checkText("attribute", s.Attribute)
	f.require(s.Weight >= 1 && s.Weight <= 100, "weight %d must be from 1 to 100", s.Weight)
	seen := map[string]bool{}
	sum := 0
	for i, t := range firstOf(f, "targets", s.SpreadTarget, MaxListed) {
		if t == nil {
			f.addf("target %d is null", i+1)
			continue
		}

		f := f.at("target %d", i+1)
		f.checkText("value", t.Value)
		f.require(!seen[t.Value], "value %q is there twice", t.Value)
		seen[t.Value] = true
		f.require(t.Percent <= 100, "percent %d must be at most 100", t.Percent)
		sum += int(t.Percent)
	}

	f.require(sum <= 100, "the percentages of its targets are %d in sum; at most 100 are allowed", sum)
}
