// Package foreign remembers the nodes of other clusters that asked these servers to join, for operators. It
// is in the memory of the leader: the nodes ask again and again. Everybody may ask, so it is bounded.
package foreign

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/structs"
)

// Nodes are the foreign nodes that asked last. The zero value has none.
type Nodes struct {
	mu   sync.Mutex
	byID map[string]structs.ForeignNode
}

// Note remembers a node that was rejected. It takes the place of the node that has not asked for the longest
// time if there are structs.MaxForeignNodes.
func (f *Nodes) Note(n structs.ForeignNode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID == nil {
		f.byID = map[string]structs.ForeignNode{}
	}

	_, known := f.byID[n.ID]
	if !known && len(f.byID) >= structs.MaxForeignNodes {
		oldest := slices.MinFunc(slices.Collect(maps.Values(f.byID)), func(a, b structs.ForeignNode) int {
			return cmp.Compare(a.Asked, b.Asked)
		})
		delete(f.byID, oldest.ID)
	}
	f.byID[n.ID] = n
}

// Forget forgets a node that has joined.
func (f *Nodes) Forget(nodeID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byID, nodeID)
}

// List returns the nodes that asked within structs.ForeignNodeFor, by name, and forgets the others.
func (f *Nodes) List(now time.Time) []*structs.ForeignNode {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := now.Add(-structs.ForeignNodeFor).UnixNano()
	maps.DeleteFunc(f.byID, func(_ string, n structs.ForeignNode) bool { return n.Asked < since })
	all := make([]*structs.ForeignNode, 0, len(f.byID))
	for _, n := range f.byID {
		all = append(all, &n)
	}

	slices.SortFunc(all, func(a, b *structs.ForeignNode) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return all
}
