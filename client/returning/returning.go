// Package returning follows the return of a node after a loss. The servers give the node no new allocations
// until it has told them that all is stopped and released that is no longer its own: see
// structs.Node.Returning. The node is clean for one epoch, because it may be lost again meanwhile.
package returning

import (
	"context"
	"sync/atomic"

	"berth/structs"
)

// Return is the return of a node. The zero value is that of a node that was not lost.
type Return struct {
	awaited atomic.Uint64 // the epoch for which the servers wait; 0: they do not
	pulled  atomic.Uint64 // the epoch in which the node last fetched and applied the list of its allocations
	clean   atomic.Uint64 // the epoch in which the node was clean
}

// Note takes the answer to a heartbeat in an epoch. It reports whether a return begins: the node is to fetch
// the list of its allocations again.
func (r *Return) Note(epoch uint64, returning bool) (begins bool) {
	if !returning {
		epoch = 0
	}
	return r.awaited.Swap(epoch) != epoch && epoch != 0
}

// Pending reports whether the servers wait.
func (r *Return) Pending() bool { return r.awaited.Load() != 0 }

// Pulled notes that the node has fetched and applied the list of its allocations in an epoch.
func (r *Return) Pulled(epoch uint64) { r.pulled.Store(epoch) }

// CleanFor returns the epoch in which the node was clean, 0 if the servers do not wait for it.
func (r *Return) CleanFor() uint64 {
	clean := r.clean.Load()
	if clean != r.awaited.Load() {
		return 0
	}
	return clean
}

// Check notes that the node is clean if left, which names something that is left, returns no error.
func (r *Return) Check(ctx context.Context, left func(context.Context) error) error {
	epoch := r.awaited.Load()
	switch {
	case epoch == 0 || r.clean.Load() == epoch:
		return nil
	case r.pulled.Load() != epoch:
		return structs.Unavailablef("the servers have not sent the allocations of this node yet")
	}
	err := left(ctx)
	if err == nil {
		r.clean.Store(epoch)
	}
	return err
}
