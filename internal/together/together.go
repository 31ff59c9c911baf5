// Package together puts what many want to record at about the same time into few entries of the log.
//
// Its laws:
//
//   - Whoever comes while an entry of the same kind is under way joins the next one: alone nobody waits, and
//     under load an entry carries many.
//   - All of an entry get the same answer; what is to be refused by itself does not belong here.
//   - It starts no goroutine: the first of an entry proposes it for the others.
//
// What an entry is, is left to the user.
package together

import (
	"context"
	"sync"
	"time"

	"berth/structs"
)

// Gather makes entries of Ts, those of one key together. Its exported fields are set before the first Do.
type Gather[K comparable, T any] struct {
	Most int           // in one entry
	Wait time.Duration // how long the first of an entry waits for others in any case
	// Propose records an entry and returns its index. ctx is that of the first, who may be gone.
	Propose func(ctx context.Context, key K, all []T) (index uint64, err error)

	mu   sync.Mutex
	open map[K]*entry[T] // can be joined
	busy map[K]*entry[T] // is being proposed
}

type entry[T any] struct {
	before *entry[T] // what was being proposed when this one was opened
	all    []T
	left   map[int]bool  // those of all who have gone before it was closed
	full   chan struct{} // closed when nobody more may join
	done   chan struct{} // closed when index and err are known
	index  uint64
	err    error
}

// Do has one recorded and returns the index of its entry. Who leaves while others are waited for is not
// recorded, which is unavailable; after a timeout it may be recorded yet.
func (g *Gather[K, T]) Do(ctx context.Context, key K, one T) (uint64, error) {
	e, at := g.join(key, one)
	if at == 0 {
		e.await(ctx, g.Wait)
		g.close(key, e)
		e.index, e.err = g.Propose(ctx, key, e.all)
		g.ended(key, e)
		return e.index, e.err
	}
	select {
	case <-e.done:
		return e.index, e.err
	case <-ctx.Done():
		if g.leave(key, e, at) {
			return 0, structs.Errorf(structs.KindUnavailable, "nothing was written: waiting for other writes: %w", ctx.Err())
		}
		return 0, structs.Errorf(structs.KindTimeout, "what came of it is not known: %w", ctx.Err())
	}
}

// join says which of its entry one is.
func (g *Gather[K, T]) join(key K, one T) (e *entry[T], at int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open, g.busy = map[K]*entry[T]{}, map[K]*entry[T]{}
	}
	e = g.open[key]
	if e == nil {
		e = &entry[T]{before: g.busy[key], left: map[int]bool{}, full: make(chan struct{}), done: make(chan struct{})}
		g.open[key] = e
	}
	at = len(e.all)
	if e.all = append(e.all, one); len(e.all) == g.Most {
		close(e.full)
		delete(g.open, key)
	}
	return e, at
}

// leave takes one out of an entry that is open still.
func (g *Gather[K, T]) leave(key K, e *entry[T], at int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[key] != e {
		return false
	}
	e.left[at] = true
	return true
}

// await gives others the time to join.
func (e *entry[T]) await(ctx context.Context, wait time.Duration) {
	if e.before != nil {
		select {
		case <-e.before.done:
		case <-e.full:
		case <-ctx.Done():
		}
		e.before = nil
	}
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.full:
	case <-ctx.Done():
	}
}

// close lets nobody join any more.
func (g *Gather[K, T]) close(key K, e *entry[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[key] == e {
		delete(g.open, key)
	}
	g.busy[key] = e
	staying := make([]T, 0, len(e.all))
	for at, one := range e.all {
		if !e.left[at] {
			staying = append(staying, one)
		}
	}
	e.all = staying
}

func (g *Gather[K, T]) ended(key K, e *entry[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy[key] == e {
		delete(g.busy, key)
	}
	close(e.done)
}
