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
	"=", "==", "is", "!=", "not", "<", "<=", ">", ">=",
	ConstraintRegexp,
	ConstraintVersion,
	ConstraintSemver,
	ConstraintSetContains,
	ConstraintSetContainsAll,
	ConstraintSetContainsAny,
	ConstraintIsSet,
	ConstraintIsNotSet,
	ConstraintDistinctHosts,
}

// checkConstraints checks each constraint. Only nodes know the values of targets.
func (f fieldErrors) checkConstraints(list []*Constraint) {
	for i, c := range firstOf(f, "constraints", list, MaxConstraints) {
		f.at("constraint %d", i+1).checkConstraint(c)
	}
}

func (f fieldErrors) checkConstraint(c *Constraint) {
	switch {
	case c == nil:
		f.addf("it is null")
	case !slices.Contains(constraintOperands, c.Operand):
		f.addf("operator %q must be %s", c.Operand, oneOf(constraintOperands))
	case c.Operand == ConstraintDistinctHosts:
		_, err := strconv.ParseBool(c.RTarget)
		f.require(c.RTarget == "" || err == nil, "distinct_hosts must be true or false")
	default:
		f.require(c.LTarget != "", "attribute is required")
		f.checkText("attribute", c.LTarget)
		f.checkConstraintValue(c)
	}
}

func (f fieldErrors) checkConstraintValue(c *Constraint) {
	if len(c.RTarget) > MaxText {
		f.checkText("value", c.RTarget)
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
	f.require(c.RTarget != "", "value is required with operator %s", c.Operand)
	f.require(err == nil || c.RTarget == "",
		"value of %s: %v", c.Operand, err)
}
