package validate

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/hashicorp/go-version"

	"berth/structs"
	"berth/structs/semver"
	"berth/structs/validate/field"
)

var constraintOperands = []string{
	"=", "==", "is", "!=", "not", "<", "<=", ">", ">=",
	structs.ConstraintRegexp,
	structs.ConstraintVersion,
	structs.ConstraintSemver,
	structs.ConstraintSetContains,
	structs.ConstraintSetContainsAll,
	structs.ConstraintSetContainsAny,
	structs.ConstraintIsSet,
	structs.ConstraintIsNotSet,
	structs.ConstraintDistinctHosts,
	structs.ConstraintDistinctProperty,
}

// Constraints checks each constraint. Only nodes know the values of targets.
func Constraints(f field.Errors, list []*structs.Constraint) {
	for i, c := range field.FirstOf(f, "constraints", list, structs.MaxConstraints) {
		checkConstraint(f.At("constraint %d", i+1), c)
	}
}

// checkConstraint checks a constraint of a job or a group. A fault of the operator hides the others, because
// it decides what the operands mean.
func checkConstraint(f field.Errors, c *structs.Constraint) {
	switch {
	case c == nil:
		f.Addf("it is null")
	case !slices.Contains(constraintOperands, c.Operand):
		f.Addf("operator %q must be %s", c.Operand, field.OneOf(constraintOperands))
	case c.Operand == structs.ConstraintDistinctHosts:
		_, err := strconv.ParseBool(c.RTarget)
		f.Require(c.RTarget == "" || err == nil, "distinct_hosts must be true or false")
	case c.Operand == structs.ConstraintDistinctProperty:
		f.Require(c.LTarget != "", "attribute is required")
		f.CheckText("attribute", c.LTarget)
		_, err := c.PropertyLimit()
		f.Require(err == nil, "value %q must be the number of allocations with one value of the attribute, 1 to %d", c.RTarget, structs.MaxJobCount)

	default:
		f.Require(c.LTarget != "", "attribute is required")
		f.CheckText("attribute", c.LTarget)
		checkConstraintValue(f, c)
	}
}

// checkTaskConstraints checks the constraints of a task. They depend on the node alone.
func checkTaskConstraints(f field.Errors, list []*structs.Constraint) {
	for i, c := range field.FirstOf(f, "constraints", list, structs.MaxConstraints) {
		f := f.At("constraint %d", i+1)
		if c == nil {
			f.Addf("it is null")
			continue
		}
		checkNodeCondition(f, c)
	}
}

// checkConstraintValue checks the right operand by the operator. It parses an expression as the scheduler
// does.
func checkConstraintValue(f field.Errors, c *structs.Constraint) {
	f.CheckText("value", c.RTarget)

	// The parsers below would get a text of any length. CheckText has reported it.
	if len(c.RTarget) > structs.MaxText {
		return
	}

	var err error
	switch c.Operand {
	case structs.ConstraintIsSet, structs.ConstraintIsNotSet:
		return
	case structs.ConstraintRegexp:
		_, err = regexp.Compile(c.RTarget)
	case structs.ConstraintVersion:
		_, err = version.NewConstraint(c.RTarget)
	case structs.ConstraintSemver:
		_, err = semver.Parse(c.RTarget)
	}

	f.Require(c.RTarget != "", "value is required with operator %s", c.Operand)
	f.Require(err == nil || c.RTarget == "",
		"value of %s: %v", c.Operand, err)
}

// checkAffinities checks the affinities of a job, a group or a task.
func checkAffinities(f field.Errors, j *structs.Job, list []*structs.Affinity) {
	f.Require(len(list) == 0 || !j.PerNode(),
		"affinity: a %s job has none: it runs on every feasible node", j.Type)
	for i, a := range field.FirstOf(f, "affinities", list, structs.MaxConstraints) {
		f := f.At("affinity %d", i+1)
		if a == nil {
			f.Addf("it is null")
			continue
		}

		checkWeight(f, a)
		checkNodeCondition(f, a.Constraint())
	}
}

// checkNodeCondition checks a constraint that depends on the node alone.
func checkNodeCondition(f field.Errors, c *structs.Constraint) {
	switch c.Operand {
	case structs.ConstraintDistinctHosts, structs.ConstraintDistinctProperty:
		f.Addf("operator %q is only for the constraints of jobs and groups", c.Operand)
	default:
		checkConstraint(f, c)
	}
}

// checkWeight checks the weight of an affinity. A negative one keeps allocations away, and 0 would have no
// effect.
func checkWeight(f field.Errors, a *structs.Affinity) {
	f.Require(a.Weight != 0 && a.Weight >= -100 && a.Weight <= 100,
		"weight %d must be from -100 to 100 and not 0", a.Weight)
}

// checkSpreads checks the spreads of a job or a group.
func checkSpreads(f field.Errors, j *structs.Job, list []*structs.Spread) {
	f.Require(len(list) == 0 || !j.PerNode(),
		"spread: a %s job has none: it runs on every feasible node", j.Type)
	for i, s := range field.FirstOf(f, "spreads", list, structs.MaxConstraints) {
		f := f.At("spread %d", i+1)
		if s == nil {
			f.Addf("it is null")
			continue
		}

		checkSpread(f, s)
	}
}

// checkSpread checks a spread and its targets. The rest of the percentages is for the values
// that no target names.
func checkSpread(f field.Errors, s *structs.Spread) {
	f.Require(s.Attribute != "", "attribute is required")
	f.CheckText("attribute", s.Attribute)
	f.Require(s.Weight >= 1 && s.Weight <= 100, "weight %d must be from 1 to 100", s.Weight)
	seen := map[string]bool{}
	sum := 0
	for i, t := range field.FirstOf(f, "targets", s.SpreadTarget, structs.MaxListed) {
		if t == nil {
			f.Addf("target %d is null", i+1)
			continue
		}

		f := f.At("target %d", i+1)
		f.CheckText("value", t.Value)
		f.Require(!seen[t.Value], "value %q is there twice", t.Value)
		seen[t.Value] = true
		f.Require(t.Percent <= 100, "percent %d must be at most 100", t.Percent)

		// A percentage is at most 255 and the targets are bounded, so the sum does not overflow.
		sum += int(t.Percent)
	}

	f.Require(sum <= 100, "the percentages of its targets are %d in sum; at most 100 are allowed", sum)
}
