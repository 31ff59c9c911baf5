package node

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/structs/cluster"
)

// rejectedNodes are the nodes of other clusters that asked these servers to join, for operators. They are in
// the memory of the leader: the nodes ask again and again. Everybody may ask, so they are bounded. The zero
// value has none.
type rejectedNodes struct {
	mu   sync.Mutex
	byID map[string]cluster.ForeignNode
}

// Note remembers a node that was rejected. It takes the place of the node that has not asked for the longest
// time if there are cluster.MaxForeignNodes.
func (f *rejectedNodes) Note(n cluster.ForeignNode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID == nil {
		f.byID = map[string]cluster.ForeignNode{}
	}

	_, known := f.byID[n.ID]
	if !known && len(f.byID) >= cluster.MaxForeignNodes {
		oldest := slices.MinFunc(slices.Collect(maps.Values(f.byID)), func(a, b cluster.ForeignNode) int {
			return cmp.Compare(a.Asked, b.Asked)
		})
		delete(f.byID, oldest.ID)
	}
	f.byID[n.ID] = n
}

// Forget forgets a node that has joined.
func (f *rejectedNodes) Forget(nodeID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byID, nodeID)
}

// List returns the nodes that asked within cluster.ForeignNodeFor, by name, and forgets the others.
func (f *rejectedNodes) List(now time.Time) []*cluster.ForeignNode {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := now.Add(-cluster.ForeignNodeFor).UnixNano()
	maps.DeleteFunc(f.byID, func(_ string, n cluster.ForeignNode) bool { return n.Asked < since })
	all := make([]*cluster.ForeignNode, 0, len(f.byID))
	for _, n := range f.byID {
		all = append(all, &n)
	}

	slices.SortFunc(all, func(a, b *cluster.ForeignNode) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return all
}
