package rpc

import (
	"sync"
	"sync/atomic"
)

// workers run the requests of a stream that are not served inline. The goroutine of one waits for the next
// request: a new goroutine has a small stack, and a write through the log needs a larger one. A twentieth of
// the server's time for claims went into growing stacks (ADR 19).
type workers struct {
	next    chan func() // to the idle goroutine
	idle    atomic.Int64
	running sync.WaitGroup
}

// mostIdle is enough for a stream, because its requests rarely overlap.
const mostIdle = 1

func newWorkers() *workers {
	return &workers{next: make(chan func())}
}

// run calls fn in the idle goroutine, or in a new one.
func (w *workers) run(fn func()) {
	select {
	case w.next <- fn:
	default:
		w.running.Add(1)
		go w.work(fn)
	}
}

// work calls fn, and then the functions that run hands over unless another goroutine is idle.
func (w *workers) work(fn func()) {
	defer w.running.Done()
	for more := true; more; {
		fn()
		more = w.idle.Add(1) <= mostIdle
		if more {
			fn, more = <-w.next
		}
		w.idle.Add(-1)
	}
}

// close waits until all functions have returned. run is not called any more.
func (w *workers) close() {
	close(w.next)
	w.running.Wait()
}
