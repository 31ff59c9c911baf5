package fence

import "sync"

// busyNodes are the nodes that workers of the loop look at or fence. The zero value has none.
type busyNodes struct {
	mu  sync.Mutex
	ids map[string]bool
}

// take reports whether no other worker has the node, which is then the caller's until release.
func (b *busyNodes) take(nodeID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids[nodeID] {
		return false
	}

	if b.ids == nil {
		b.ids = map[string]bool{}
	}

	b.ids[nodeID] = true
	return true
}

// release gives a node back, which the caller took.
func (b *busyNodes) release(nodeID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ids, nodeID)
}
