package structs

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/hashicorp/go-version"
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
