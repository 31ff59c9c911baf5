package structs

import (
	"cmp"
	"slices"
	"strings"
)

// InPool reports whether a node is in the node pool of the job.
func (j *Job) InPool(n *Node) bool {
	want := cmp.Or(j.NodePool, DefaultNodePool)
	return want == AllNodePools || want == cmp.Or(n.NodePool, DefaultNodePool)
}

// InDatacenter reports whether the datacenter of a node matches one of the job's, which are patterns.
func (j *Job) InDatacenter(n *Node) bool {
	return slices.ContainsFunc(j.Datacenters, func(pattern string) bool {
		return matchesGlob(pattern, n.Datacenter)
	})
}

// matchesGlob reports whether a text has a pattern, in which * is any text. As in the dialect, no other
// character is special.
func matchesGlob(pattern, text string) bool {
	part, rest, more := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, part)
	if !more {
		return ok && text == ""
	}
	for ok {
		part, rest, more = strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		_, text, ok = strings.Cut(text, part)
	}
	return false
}
