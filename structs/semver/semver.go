// Package semver compares semantic versions with the conditions of a constraint. It is apart: the scheduler
// compares versions, and the checks of jobs read conditions.
package semver

import (
	"strings"

	"github.com/hashicorp/go-version"

	"berth/structs"
)

// Conditions is the value of a semver constraint: conditions that all have to hold.
type Conditions []condition

type condition struct {
	operator string // "" is =
	version  *version.Version
}

// operators has each operator before its prefixes.
var operators = []string{"!=", "<=", ">=", "=", "<", ">"}

// Parse parses conditions with commas between them. As in the dialect, ~> is an operator of version
// alone, and a version may begin with v.
func Parse(text string) (all Conditions, err error) {
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		var c condition
		rest := part
		for _, operator := range operators {
			after, found := strings.CutPrefix(part, operator)
			if found {
				c.operator = operator
				rest = strings.TrimSpace(after)
				break
			}
		}

		c.version, err = version.NewSemver(rest)
		if err != nil {
			return nil, structs.Invalidf("%q is no condition on a semantic version, such as \">= 1.2.0\"; "+
				"the operators are =, !=, <, <=, > and >=", structs.Cut(part, structs.MaxQuoted))
		}

		all = append(all, c)
	}
	return all, nil
}

// Hold reports whether a version meets all conditions. They compare as semantic versioning orders versions:
// unlike in a version constraint, a pre-release is a version like any other, just before its release.
func (all Conditions) Hold(v *version.Version) bool {
	for _, c := range all {
		if !SignFits(c.operator, v.Compare(c.version)) {
			return false
		}
	}
	return true
}

// SignFits reports whether the result of a comparison is one that the operator wants.
func SignFits(operator string, sign int) bool {
	switch operator {
	case "!=":
		return sign != 0
	case "<":
		return sign < 0
	case "<=":
		return sign <= 0
	case ">":
		return sign > 0
	case ">=":
		return sign >= 0
	}
	return sign == 0
}
