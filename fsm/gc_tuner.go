package fsm

import (
	"runtime/debug"
	"sync"
)

// restoreGOGC is GOGC during a restore. At the end of a restore the heap of the store is a third to a half of
// the memory of the process, as between two collections at other times.
const restoreGOGC = 400

// restores is held during a restore: GOGC is a setting of the process.
var restores sync.Mutex

// collectLess makes garbage collections rarer until end. Nearly all memory that a restore allocates stays in
// use, and each collection would scan all of it again. A memory limit of the process still holds.
func collectLess() (end func()) {
	restores.Lock()
	usual := debug.SetGCPercent(restoreGOGC)
	if usual < 0 || usual > restoreGOGC {
		debug.SetGCPercent(usual)
	}
	return func() {
		debug.SetGCPercent(usual)
		restores.Unlock()
	}
}
