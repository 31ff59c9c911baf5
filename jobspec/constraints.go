package jobspec

import (
	"cmp"
	"strconv"

	"berth/structs"
)

func (c *converter) constraints(list []*constraint) []*structs.Constraint {
	var out []*structs.Constraint
	for _, x := range list {
		out = append(out, c.constraint(x))
	}
	return out
}

// constraint reads the long form or one of the short ones. Several forms are a fault, so the order of the map
// has no effect.
func (c *converter) constraint(x *constraint) *structs.Constraint {
	out := &structs.Constraint{
		LTarget: x.Attribute,
		Operand: cmp.Or(x.Operator, "="),
	}
	override(&out.RTarget, x.Value)
	// A server reads only the long form, into which each short one turns.
	forms := 0
	for operand, value := range map[string]*string{
		structs.ConstraintVersion:        x.Version,
		structs.ConstraintSemver:         x.Semver,
		structs.ConstraintRegexp:         x.Regexp,
		structs.ConstraintSetContains:    x.SetContains,
		structs.ConstraintSetContainsAll: x.SetContainsAll,
		structs.ConstraintSetContainsAny: x.SetContainsAny,
		structs.ConstraintDistinctHosts:  boolText(x.DistinctHosts),
	} {
		if value != nil {
			out.Operand = operand
			out.RTarget = *value
			forms++
		}
	}

	if x.DistinctProperty != nil {
		both := forms > 0 || x.Operator != "" || x.Attribute != ""
		c.oneForm(x, !both)
		out.Operand = structs.ConstraintDistinctProperty
		out.LTarget = *x.DistinctProperty
		return out
	}

	c.oneForm(x, forms == 0 || forms == 1 && x.Operator == "" && x.Value == nil)
	return out
}

// oneForm rejects a constraint with several forms. Its block is spoiled: the check of the job would find
// faults in what is left.
func (c *converter) oneForm(x *constraint, is bool) {
	if !is {
		c.spoiled[x.At] = true
		c.fault(x.At,
			"the constraint has more than one form; expected attribute with one of operator and value, version, "+
				"semver, regexp, set_contains, set_contains_all, set_contains_any, or distinct_hosts alone, "+
				"or distinct_property with value")
	}
}

// devices converts the devices of a task. A request without a count is one for one instance.
func (c *converter) devices(list []*device) []*structs.RequestedDevice {
	var out []*structs.RequestedDevice
	for _, d := range list {
		r := &structs.RequestedDevice{
			Name:        d.Name,
			Count:       1,
			Constraints: c.constraints(d.Constraints),
		}
		override(&r.Count, d.Count)
		r.Affinities = c.affinities(d.Affinities)
		out = append(out, r)
	}
	return out
}

func (c *converter) affinities(list []*affinity) (out []*structs.Affinity) {
	for _, a := range list {
		out = append(out, c.affinity(a))
	}
	return out
}

// spreads converts the spreads of a job or a group.
func spreads(list []*spread) (out []*structs.Spread) {
	for _, x := range list {
		s := &structs.Spread{
			Attribute: x.Attribute,
			Weight:    structs.DefaultSpreadWeight,
		}
		override(&s.Weight, x.Weight)
		for _, t := range x.Targets {
			s.SpreadTarget = append(s.SpreadTarget, (*structs.SpreadTarget)(t))
		}
		out = append(out, s)
	}
	return out
}

// affinity converts an affinity, which has the forms of a constraint.
func (c *converter) affinity(a *affinity) *structs.Affinity {
	x := c.constraint(&a.constraint)
	out := &structs.Affinity{
		LTarget: x.LTarget,
		RTarget: x.RTarget,
		Operand: x.Operand,
		Weight:  structs.DefaultAffinityWeight,
	}
	override(&out.Weight, a.Weight)
	return out
}

// boolText returns the text in which a constraint has a value, nil without one.
func boolText(b *bool) *string {
	if b == nil {
		return nil
	}
	return new(strconv.FormatBool(*b))
}
