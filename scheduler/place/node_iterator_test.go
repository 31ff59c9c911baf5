package place

import (
	"testing"

	"pgregory.net/rapid"

	"berth/structs"
)

// TestCyclicIter_KnowsTheNodesThatItHasPassed reads a few nodes at a time. The iteration has passed those
// that it has read, and no others.
func TestCyclicIter_KnowsTheNodesThatItHasPassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*structs.Node
		for _, id := range "abcdefgh"[:rapid.IntRange(0, 8).Draw(t, "nodes")] {
			nodes = append(nodes, &structs.Node{ID: string(id)})
		}
		r := cyclicIter{
			source: listSource("list", nodes),
			first:  rapid.SampledFrom([]string{"", "a", "c", "cc", "h", "x"}).Draw(t, "first"),
		}
		read := map[string]bool{}
		for {
			for _, n := range nodes {
				if r.hasPassed(n.ID) != read[n.ID] {
					t.Fatalf("node %s is read: %v, passed: %v", n.ID, read[n.ID], r.hasPassed(n.ID))
				}
			}
			few := r.readNodes(rapid.IntRange(1, 3).Draw(t, "few"))
			if len(few) == 0 {
				break
			}
			for _, c := range few {
				if read[c.node.ID] {
					t.Fatalf("node %s is read twice", c.node.ID)
				}
				read[c.node.ID] = true
			}
		}
		if len(read) != len(nodes) {
			t.Fatalf("%d nodes of %d are read", len(read), len(nodes))
		}
	})
}
