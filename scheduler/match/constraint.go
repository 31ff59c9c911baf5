// Package match compiles the constraints, the affinities and the demands for devices of a job. It tells which
// nodes and devices meet them. Nothing here depends on allocations.
package match

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"

	"berth/structs"
	"berth/structs/semver"
)

// Constraint is one constraint, compiled for many nodes.
type Constraint struct {
	Text  string // its text in a rejection
	left  target
	right target
	holds func(left, right value) bool
}

// value is the value of a target on a node, if it is set there.
type value struct {
	Text string
	Set  bool
}

// operands are all but distinct_hosts and distinct_property, which depend on allocations too.
var operands = map[string]func(l, r value) bool{
	"=":                              equalValues,
	"==":                             equalValues,
	"is":                             equalValues,
	"!=":                             unequalValues,
	"not":                            unequalValues,
	"<":                              orderedBy("<"),
	"<=":                             orderedBy("<="),
	">":                              orderedBy(">"),
	">=":                             orderedBy(">="),
	structs.ConstraintSetContains:    containsAll,
	structs.ConstraintSetContainsAll: containsAll,
	structs.ConstraintSetContainsAny: containsAny,
	structs.ConstraintIsSet:          func(l, _ value) bool { return l.Set },
	structs.ConstraintIsNotSet:       func(l, _ value) bool { return !l.Set },
	structs.ConstraintRegexp:         matchesRegexp,
	structs.ConstraintVersion:        versionFits,
	structs.ConstraintSemver:         semverFits,
}

// CompileConstraints compiles constraints. No node meets a constraint with an unknown operand.
func CompileConstraints(lists ...[]*structs.Constraint) []Constraint {
	var out []Constraint
	for _, list := range lists {
		for _, c := range list {
			if c == nil ||
				c.Operand == structs.ConstraintDistinctHosts ||
				c.Operand == structs.ConstraintDistinctProperty {
				continue
			}
			out = append(out, CompileConstraint(c))
		}
	}
	return out
}

// CompileConstraint compiles one constraint.
func CompileConstraint(c *structs.Constraint) Constraint {
	holds := operands[c.Operand]

	// The zero constraint would be met everywhere.
	if holds == nil {
		holds = func(value, value) bool { return false }
	}
	return Constraint{
		Text:  structs.Cut(constraintText(c), structs.MaxReason),
		left:  TargetOf(c.LTarget),
		right: TargetOf(c.RTarget),
		holds: memoize(holds),
	}
}

// OnlyNode returns the ID of the only node that the constraints allow, "" if there may be others.
func OnlyNode(lists ...[]*structs.Constraint) string {
	equals := []string{"=", "==", "is"}
	for _, c := range slices.Concat(lists...) {
		if c != nil &&
			slices.Contains(equals, c.Operand) &&
			c.LTarget == "${node.unique.id}" &&
			// A target on the right has another value on each node.
			!strings.HasPrefix(c.RTarget, "${") {
			return c.RTarget
		}
	}
	return ""
}

func constraintText(c *structs.Constraint) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.LTarget, c.Operand, c.RTarget))
}

// memoize caches the results of a comparison: a fleet has few different inputs.
func memoize(holds func(l, r value) bool) func(l, r value) bool {
	// A compiled constraint belongs to one plan, which one goroutine makes, so the map needs no lock.
	known := map[[2]value]bool{}
	return func(l, r value) bool {
		key := [2]value{l, r}
		ok, found := known[key]
		if !found {
			ok = holds(l, r)
			known[key] = ok
		}
		return ok
	}
}

// MetBy reports whether the node meets the constraint.
func (c Constraint) MetBy(n *structs.Node) bool {
	return c.holds(c.left(n), c.right(n))
}

// target reads one side of a constraint from a node.
type target func(n *structs.Node) value

// nodeTargets are the properties of a node that are not attributes of its fingerprint.
var nodeTargets = map[string]func(n *structs.Node) string{
	"node.unique.id":   func(n *structs.Node) string { return n.ID },
	"node.unique.name": func(n *structs.Node) string { return n.Name },
	"node.datacenter":  func(n *structs.Node) string { return n.Datacenter },
	"node.class":       func(n *structs.Node) string { return n.NodeClass },
	"node.pool":        func(n *structs.Node) string { return n.NodePool },
}

// TargetOf understands ${node...}, ${attr...} and ${meta...}; anything else is the text itself.
func TargetOf(s string) target {
	name, ok := strings.CutPrefix(s, "${")
	if !ok || !strings.HasSuffix(name, "}") {
		return func(*structs.Node) value {
			return value{s, true}
		}
	}

	name = strings.TrimSpace(strings.TrimSuffix(name, "}"))
	if property := nodeTargets[name]; property != nil {
		return func(n *structs.Node) value {
			// A property of the node itself is always set, also if it is empty.
			return value{property(n), true}
		}
	}

	kind, key := splitName(name)
	return func(n *structs.Node) value {
		var from map[string]string
		switch kind {
		case "attr":
			from = n.Attributes
		case "meta":
			from = n.Meta
		}

		// Of another kind from is nil, and the value is not set.
		text, set := from[key]
		return value{text, set}
	}
}

// splitName splits the name of an attribute or of an entry of the meta: meta.rack, or meta["rack"].
func splitName(name string) (kind, key string) {
	kind, key, ok := strings.Cut(name, ".")
	if !ok {
		// A name without a dot may have its key in brackets, for keys that have no form of a name.
		kind, key, _ = strings.Cut(name, "[")
		key = strings.Trim(strings.TrimSuffix(key, "]"), `"`)
	}
	return kind, key
}

// IsNodeName reports whether nodes may have a value for a name in ${}, as TargetOf understands it.
func IsNodeName(name string) bool {
	kind, key := splitName(name)
	return nodeTargets[name] != nil || (kind == "attr" || kind == "meta") && key != ""
}

func equalValues(l, r value) bool {
	return l.Set && r.Set && l.Text == r.Text
}

// unequalValues takes a value that is not set for an empty one, as in the dialect.
func unequalValues(l, r value) bool {
	return l.Text != r.Text
}

// orderedBy compares whole numbers if both sides are such, else numbers if both are, else texts.
func orderedBy(operator string) func(l, r value) bool {
	return func(l, r value) bool {
		if !l.Set || !r.Set {
			return false
		}

		// A float has 53 bits, so large whole numbers are compared exactly first.
		whole := func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }
		sign, ok := compareAs(l, r, whole)
		if !ok {
			sign, ok = compareAs(l, r, parseNumber)
		}
		if !ok {
			sign = strings.Compare(l.Text, r.Text)
		}
		return semver.SignFits(operator, sign)
	}
}

// parseNumber is strconv.ParseFloat without "nan", which has no order among numbers.
func parseNumber(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if math.IsNaN(x) {
		return 0, strconv.ErrSyntax
	}
	return x, err
}

// compareAs compares two values that can be parsed, and reports whether both can.
func compareAs[T cmp.Ordered](l, r value, parse func(string) (T, error)) (sign int, ok bool) {
	x, errX := parse(l.Text)
	y, errY := parse(r.Text)
	return cmp.Compare(x, y), errX == nil && errY == nil
}

// splitList splits a list with commas. Spaces around an element do not count.
func splitList(v value) []string {
	var out []string
	for _, s := range strings.Split(v.Text, ",") {
		out = append(out, strings.TrimSpace(s))
	}
	return out
}

// containsAll compares lists with commas: each element on the right is on the left.
func containsAll(l, r value) bool {
	have := splitList(l)
	missing := func(s string) bool {
		return !slices.Contains(have, s)
	}
	return l.Set && r.Set && !slices.ContainsFunc(splitList(r), missing)
}

func containsAny(l, r value) bool {
	have := splitList(l)
	present := func(s string) bool {
		return slices.Contains(have, s)
	}
	return l.Set && r.Set && slices.ContainsFunc(splitList(r), present)
}

func matchesRegexp(l, r value) bool {
	// The result is cached by memoize, so each pair of texts is compiled and matched once in a plan.
	re, err := regexp.Compile(r.Text)
	return err == nil && l.Set && r.Set && re.MatchString(l.Text)
}

// versionFits compares versions with numbers of any count, as 1.2 or 1.2.3.4. A text that is none never fits.
func versionFits(l, r value) bool {
	v, err := version.NewVersion(l.Text)
	want, errWant := version.NewConstraint(r.Text)
	return err == nil && errWant == nil &&
		l.Set && r.Set && want.Check(v)
}

// semverFits compares versions as Semantic Versioning orders them.
func semverFits(l, r value) bool {
	v, err := version.NewSemver(l.Text)
	want, errWant := semver.Parse(r.Text)
	return err == nil && errWant == nil &&
		l.Set && r.Set && want.Hold(v)
}
