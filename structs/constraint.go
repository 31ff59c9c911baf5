package structs

import "strconv"

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
