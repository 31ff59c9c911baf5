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

	// ConstraintDistinctProperty limits the allocations on nodes with one value of an attribute: RTarget is
	// their number, 1 if it is empty.
	ConstraintDistinctProperty = "distinct_property"
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
	ConstraintDistinctProperty,
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
	case c.Operand == ConstraintDistinctProperty:
		f.require(c.LTarget != "", "attribute is required")
		f.checkText("attribute", c.LTarget)
		_, err := c.PropertyLimit()
		f.require(err == nil, "value %q must be the number of allocations with one value of the attribute, "+
			"1 to %d", c.RTarget, MaxJobCount)

	default:
		f.require(c.LTarget != "", "attribute is required")
		f.checkText("attribute", c.LTarget)
		f.checkConstraintValue(c)
	}
}

// checkTaskConstraints checks the constraints of a task. They depend on the node alone.
func (f fieldErrors) checkTaskConstraints(list []*Constraint) {
	for i, c := range firstOf(f, "constraints", list, MaxConstraints) {
		f := f.at("constraint %d", i+1)
		if c == nil {
			f.addf("it is null")
			continue
		}
		f.checkNodeCondition(c)
	}
}

// PropertyLimit returns the number of allocations that a distinct_property constraint allows on the nodes
// with one value of its attribute.
func (c *Constraint) PropertyLimit() (int, error) {
	if c.RTarget == "" {
		return 1, nil
	}
	limit, err := strconv.Atoi(c.RTarget)
	if err == nil && (limit < 1 || limit > MaxJobCount) {
		err = strconv.ErrRange
	}
	return limit, err
}

func (f fieldErrors) checkConstraintValue(c *Constraint) {
	f.checkText("value", c.RTarget)
	if len(c.RTarget) > MaxText {
		return
	}

	var err error
	switch c.Operand {
	case ConstraintIsSet, ConstraintIsNotSet:
		return
	case ConstraintRegexp:
		_, err = regexp.Compile(c.RTarget)
	case ConstraintVersion:
		_, err = version.NewConstraint(c.RTarget)
	case ConstraintSemver:
		_, err = ParseSemver(c.RTarget)
	}

	f.require(c.RTarget != "", "value is required with operator %s", c.Operand)
	f.require(err == nil || c.RTarget == "",
		"value of %s: %v", c.Operand, err)
}
