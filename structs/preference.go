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
