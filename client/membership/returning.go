package membership

import (
	"context"
	"sync/atomic"

	"berth/structs"
)

// Return follows the return of a node after a loss. The servers give the node no new allocations until it
// has told them that all is stopped and released that is no longer its own: see structs.Node.Returning. The
// node is clean for one epoch, because it may be lost again meanwhile.
type Return struct {
	awaited atomic.Uint64 // the epoch for which the servers wait; 0: they do not
	pulled  atomic.Uint64 // the epoch in which the node last fetched and applied the list of its allocations
	clean   atomic.Uint64 // the epoch in which the node was clean
	begun   chan struct{} // has a value: Run has to look for things that are not this node's own
}

// NewReturn returns the return of a node that was not lost.
func NewReturn() *Return { return &Return{begun: make(chan struct{}, 1)} }

// Note takes the answer to a heartbeat in an epoch. It reports whether a return begins: the node is to fetch
// the list of its allocations again.
func (r *Return) Note(epoch uint64, returning bool) (begins bool) {
	if !returning {
		epoch = 0
	}

	begins = r.awaited.Swap(epoch) != epoch && epoch != 0
	if begins {
		select {
		case r.begun <- struct{}{}:
		default:
		}
	}
	return begins
}

// Run looks, after each return, for things that are not this node's own, until there are none. repeat repeats
// a call until it succeeds. left names a thing that is left, by an error.
func (r *Return) Run(
	ctx context.Context, repeat func(func(context.Context) error), left func(context.Context) error,
) {
	for {
		select {
		case <-r.begun:
		case <-ctx.Done():
			return
		}
		repeat(func(ctx context.Context) error { return r.check(ctx, left) })
	}
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

// check notes that the node is clean if left, which names something that is left, returns no error.
func (r *Return) check(ctx context.Context, left func(context.Context) error) error {
	epoch := r.awaited.Load()
	switch {
	case epoch == 0:
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
