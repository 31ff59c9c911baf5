// Package coalesce merges concurrent requests of one kind into few calls or log entries. It is apart: the log
// of servers, the records of nodes and their mounts use it.
//
// Its rules:
//
//   - A request that arrives while a batch of its key is in flight joins the next batch. A single request
//     does not wait. Before a batch is closed, its goroutine yields once, so that runnable requests can join.
//     Under load a batch carries many (ADR 22).
//   - All requests of a batch get the same answer. Requests with separate answers are pointers, into which
//     Propose writes.
//   - It starts no goroutine: the first request of a batch proposes it for the others.
//
// The caller defines the meaning of a batch: the package only collects its requests.
package coalesce

import (
	"context"
	"runtime"
	"sync"

	"berth/structs"
)

// Batcher makes batches of Ts, one after another for each key. Its exported fields are set before the first
// Do.
type Batcher[K comparable, T any] struct {
	Most int // in one batch; 0: any number
	// Propose records a batch and returns its index. ctx belongs to the first request and may have ended.
	Propose func(ctx context.Context, key K, all []T) (index uint64, err error)

	mu       sync.Mutex
	open     map[K]*batch[T] // can be joined
	inFlight map[K]*batch[T] // is being proposed
}

type batch[T any] struct {
	before *batch[T] // was being proposed when this one was opened
	all    []T
	left   map[int]bool  // by index in all: the request left before it was closed
	full   chan struct{} // closed when no more may join; nil without before
	done   chan struct{} // closed when index and err are known
	index  uint64
	err    error
}

// Do records a request in a batch and returns the index of the batch. The first request of a batch stays
// until the end: if its ctx ends, it proposes the batch at once. If the ctx of another request ends before
// the batch is closed, the request is not recorded and the error is unavailable. If it ends later, the error
// is a timeout: the request may still be recorded.
func (b *Batcher[K, T]) Do(ctx context.Context, key K, request T) (uint64, error) {
	e, at := b.join(key, request)
	if at == 0 {
		e.awaitPrevious(ctx)
		runtime.Gosched() // runnable requests can join
		b.close(key, e)
		e.index, e.err = b.Propose(ctx, key, e.all)
		b.markDone(key, e)
		return e.index, e.err
	}

	select {
	case <-e.done:
		return e.index, e.err
	case <-ctx.Done():
		if b.leave(key, e, at) {
			return 0, structs.Unavailablef("the request was not executed: waiting for other writes: %w",
				ctx.Err())
		}
		return 0, structs.Timeoutf("the write may or may not have happened: %w",
			ctx.Err())
	}
}

// join adds a request to the open batch of the key and returns its position in it.
func (b *Batcher[K, T]) join(key K, request T) (e *batch[T], at int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[K]*batch[T]{}
		b.inFlight = map[K]*batch[T]{}
	}

	e = b.open[key]
	if e == nil {
		e = &batch[T]{
			before: b.inFlight[key],
			done:   make(chan struct{}),
		}
		if e.before != nil {
			e.full = make(chan struct{})
		}

		b.open[key] = e
	}

	at = len(e.all)
	e.all = append(e.all, request)
	if len(e.all) == b.Most {
		delete(b.open, key)
		if e.full != nil {
			close(e.full)
		}
	}

	return e, at
}

// leave takes a request out of a batch. It reports false if the batch is closed.
func (b *Batcher[K, T]) leave(key K, e *batch[T], at int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[key] != e {
		return false
	}

	if e.left == nil {
		e.left = map[int]bool{}
	}

	e.left[at] = true
	return true
}

// awaitPrevious waits until the batch before this one is done. A full batch waits no longer.
func (e *batch[T]) awaitPrevious(ctx context.Context) {
	if e.before == nil {
		return
	}

	select {
	case <-e.before.done:
	case <-e.full:
	case <-ctx.Done():
	}

	e.before = nil
}

// close ends the joining.
func (b *Batcher[K, T]) close(key K, e *batch[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[key] == e {
		delete(b.open, key)
	}

	b.inFlight[key] = e
	if len(e.left) == 0 {
		return
	}

	staying := make([]T, 0, len(e.all))
	for at, request := range e.all {
		if !e.left[at] {
			staying = append(staying, request)
		}
	}

	e.all = staying
}

func (b *Batcher[K, T]) markDone(key K, e *batch[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inFlight[key] == e {
		delete(b.inFlight, key)
	}
	close(e.done)
}
