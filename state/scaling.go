package state

import (
	"iter"
	"slices"
	"strings"

	"berth/state/schema"
	"berth/structs"
)

// ScalingPolicy returns the scaling policy with an ID, nil if there is none.
func ScalingPolicy(tx Reader, id string) *structs.ScalingPolicy {
	j := schema.JobsByPolicy.First(tx, id)
	if j == nil {
		return nil
	}
	for _, p := range j.ScalingPolicies() {
		if p.ID == id {
			return p
		}
	}
	return nil
}

// ScalingPoliciesFrom yields the scaling policies of a namespace whose ID begins with prefix, from an ID on.
// It reads all of them.
func ScalingPoliciesFrom(tx *ReadTx, ns, prefix string, at Page) iter.Seq[*structs.ScalingPolicy] {
	var all []*structs.ScalingPolicy
	seen := map[structs.JobKey]bool{} // a job is in the index once for each policy
	for j := range schema.JobsByPolicy.Scan(tx) {
		key := structs.JobKey{Namespace: j.Namespace, ID: j.ID}
		if !schema.InNamespace(j.Namespace, ns) || seen[key] {
			continue
		}

		seen[key] = true
		all = append(all, j.ScalingPolicies()...)
	}

	slices.SortFunc(all, func(a, b *structs.ScalingPolicy) int {
		if at.Reverse {
			return strings.Compare(b.ID, a.ID)
		}

		return strings.Compare(a.ID, b.ID)
	})

	return schema.Filter(slices.Values(all), func(p *structs.ScalingPolicy) bool {
		before := len(at.From) > 0 && (!at.Reverse && p.ID < at.From[0] || at.Reverse && p.ID > at.From[0])
		return !before && strings.HasPrefix(p.ID, prefix)
	})
}
