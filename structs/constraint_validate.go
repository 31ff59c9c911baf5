package structs

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/hashicorp/go-version"
)

// The operands of a constraint.
const (
	ConstraintRegexp         = "regexp"
	ConstraintVersion        = "version"
	ConstraintSemver         = "semver"
	ConstraintSetContains    = "set_contains"
	ConstraintSetContainsAll = "set_contains_all"
	ConstraintSetContainsAny = "set_contains_any"
	ConstraintIsSet          = "is_set"
	ConstraintIsNotSet       = "is_not_set"
	ConstraintDistinctHosts  = "distinct_hosts"
)

var constraintOperands = []string{
	"=", "==", "is", "!=", "not", "<", "<=", ">", ">=", ConstraintRegexp, ConstraintVersion, ConstraintSemver,
	ConstraintSetContains, ConstraintSetContainsAll, ConstraintSetContainsAny, ConstraintIsSet,
	ConstraintIsNotSet, ConstraintDistinctHosts,
}

// constraints checks each; what it compares with is known on the nodes alone.
func (f faults) constraints(list []*Constraint) {
	for i, c := range list[:f.atMost("constraints", len(list), MaxConstraints)] {
		f := f.at("constraint %d", i+1)
		switch {
		case c == nil:
			f.add("it is null")
		case !slices.Contains(constraintOperands, c.Operand):
			f.add("operator %q must be %s", c.Operand, oneOf(constraintOperands))
		case c.Operand == ConstraintDistinctHosts:
			_, err := strconv.ParseBool(c.RTarget)
			f.check(c.RTarget == "" || err == nil, "distinct_hosts must be true or false")
		default:
			f.check(c.LTarget != "", "attribute is required")
			f.text("attribute", c.LTarget)
			f.constraintValue(c)
		}
	}
}

func (f faults) constraintValue(c *Constraint) {
	if len(c.RTarget) > MaxText {
		f.text("value", c.RTarget)
		return
	}
	var err error
	switch c.Operand {
	case ConstraintIsSet, ConstraintIsNotSet:
		return
	case ConstraintRegexp:
		_, err = regexp.Compile(c.RTarget)
	case ConstraintVersion, ConstraintSemver:
		_, err = version.NewConstraint(c.RTarget)
	}
	f.check(c.RTarget != "", "value is required with operator %s", c.Operand)
	f.check(err == nil || c.RTarget == "", "value of %s: %v", c.Operand, err)
}
