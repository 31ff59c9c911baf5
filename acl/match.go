package acl

import (
	"cmp"
	"slices"
	"strings"

	"berth/internal/spelling"
)

// grant is what merged rules give for one pattern.
type grant struct {
	pattern string
	literal int // characters of the pattern that are not wildcards
	given   map[Capability]bool
	denied  bool
	inner   *inner // of a namespace, otherwise nil
}

// inner are the rules in a namespace rule.
type inner struct {
	volumes grants
	paths   grants
}

// grants are the merged rules of one kind. The one that decides about a name comes before the others that
// match it.
type grants []*grant

// find returns the grant that decides about a name, nil if no pattern matches it.
func (g grants) find(name string) *grant {
	for _, one := range g {
		if spelling.MatchPattern(one.pattern, name) {
			return one
		}
	}
	return nil
}

// allows reports whether the grant that decides about a name has a capability.
func (g grants) allows(name string, c Capability) bool {
	found := g.find(name)
	return found != nil && found.allows(c)
}

func (g *grant) allows(c Capability) bool {
	return !g.denied && g.given[c]
}

// add merges a rule into the grant of its pattern and returns that grant.
func (g *grants) add(f family, r *Rule) *grant {
	i := slices.IndexFunc(*g, func(one *grant) bool { return one.pattern == r.Pattern })
	if i < 0 {
		i = len(*g)
		*g = append(*g, &grant{
			pattern: r.Pattern,
			literal: len(r.Pattern) - strings.Count(r.Pattern, "*"),
			given:   map[Capability]bool{},
		})
	}

	merged := (*g)[i]
	for _, c := range slices.Concat(f.shorthands[r.Policy], r.Capabilities) {
		merged.given[c] = true
		for _, also := range implied[c] {
			merged.given[also] = true
		}
	}
	if r.Policy == string(Deny) || slices.Contains(r.Capabilities, Deny) {
		merged.denied = true
	}
	return merged
}

// sort puts names before patterns, and patterns with more characters of their own before others. Of two with
// as many, one that denies decides, otherwise the first in the alphabet, so that all servers decide alike.
func (g grants) sort() {
	slices.SortFunc(g, func(a, b *grant) int {
		aPattern := strings.Contains(a.pattern, "*")
		bPattern := strings.Contains(b.pattern, "*")
		if aPattern != bPattern {
			if aPattern {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(b.literal, a.literal), deniesFirst(a, b), cmp.Compare(a.pattern, b.pattern))
	})
}

func deniesFirst(a, b *grant) int {
	switch {
	case a.denied == b.denied:
		return 0
	case a.denied:
		return -1
	}
	return 1
}
