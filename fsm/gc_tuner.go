package fsm

import (
	"runtime/debug"
	"sync"
)

// restoreGC makes garbage collections rarer during a restore. Nearly all memory that a restore allocates
// stays in use, and each collection would scan all of it again. A memory limit of the process still holds.
var restoreGC gcTuner

// gcTuner raises GOGC of the process while at least one owner needs it.
type gcTuner struct {
	mu     sync.Mutex
	owners int
	usual  int // GOGC before the first owner
}

// restoreGOGC is GOGC during a restore. At the end of a restore the heap of the store is a third to a half of
// the memory of the process, as between two collections at other times.
const restoreGOGC = 400

func (t *gcTuner) addOwner() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owners++
	if t.owners > 1 {
		return
	}
	t.usual = debug.SetGCPercent(restoreGOGC)
	if t.usual < 0 || t.usual > restoreGOGC {
		debug.SetGCPercent(t.usual)
	}
}

func (t *gcTuner) removeOwner() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owners--
	if t.owners == 0 {
		debug.SetGCPercent(t.usual)
	}
}
