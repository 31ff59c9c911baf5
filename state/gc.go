package state

import (
	"runtime/debug"
	"sync"
)

// loads makes the collector rarer while a snapshot is loaded: nearly all that is made then stays, and each
// collection would go through all of it once more. A limit of memory that is set goes on to hold.
var loads rarer

// rarer is a change of the process's GOGC that several may want at once.
type rarer struct {
	mu    sync.Mutex
	many  int
	usual int // GOGC as it was
}

// whileLoading is GOGC then: at its end the store's heap is a third to a half of what the process holds, as
// between two collections it is anyhow.
const whileLoading = 400

func (r *rarer) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.many++; r.many > 1 {
		return
	}
	if r.usual = debug.SetGCPercent(whileLoading); r.usual < 0 || r.usual > whileLoading {
		debug.SetGCPercent(r.usual)
	}
}

func (r *rarer) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.many--; r.many == 0 {
		debug.SetGCPercent(r.usual)
	}
}
