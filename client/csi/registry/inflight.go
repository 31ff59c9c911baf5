package registry

import (
	"context"
	"sync"

	"berth/structs"
)

// InFlight counts the calls of plugins for volumes that are in flight on a node, by the instance of the
// plugin. It lets a stop of an instance, or of the agent, wait for their ends. Make one with NewInFlight. It
// is safe for concurrent use.
type InFlight struct {
	mu         sync.Mutex
	closed     bool
	byInstance map[string]int
	ended      chan struct{} // closed and replaced when the last call of an instance has ended
}

// NewInFlight returns a count without calls.
func NewInFlight() *InFlight {
	return &InFlight{
		byInstance: map[string]int{},
		ended:      make(chan struct{}),
	}
}

// Begin counts a call at an instance, which is the ID of the allocation that runs it. It counts nothing and
// returns an unavailable error after Close, and if serves reports false: the process of the instance stops.
// serves is called under a lock, so Await misses no call that it allowed.
func (c *InFlight) Begin(instance string, serves func() bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return structs.Unavailablef("not called: the agent stops")
	case !serves():
		return structs.Unavailablef("not called: this instance of the plugin stops")
	}
	c.byInstance[instance]++
	return nil
}

// End is called once for each call that Begin has counted.
func (c *InFlight) End(instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byInstance[instance]--
	if c.byInstance[instance] > 0 {
		return
	}
	delete(c.byInstance, instance)
	close(c.ended)
	c.ended = make(chan struct{})
}

// Close makes each later Begin fail.
func (c *InFlight) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// Await waits until an instance has no call in flight, or until ctx ends. It returns how many are left.
func (c *InFlight) Await(ctx context.Context, instance string) (left int) {
	return c.await(ctx, func() int { return c.byInstance[instance] })
}

// AwaitAll is Await for all instances. left is the number of instances with calls.
func (c *InFlight) AwaitAll(ctx context.Context) (left int) {
	return c.await(ctx, func() int { return len(c.byInstance) })
}

// await waits until count, which is called under the lock, returns 0.
func (c *InFlight) await(ctx context.Context, count func() int) int {
	for {
		c.mu.Lock()
		left := count()
		ended := c.ended
		c.mu.Unlock()
		if left == 0 {
			return 0
		}

		select {
		case <-ended:
		case <-ctx.Done():
			return left
		}
	}
}
