package agent

import (
	"os"
	"runtime/debug"
	"sync/atomic"
)

// serverGOGC lets the heap of a server grow threefold, and not twofold, before a collection. Rows live long,
// the memory of a request does not, and each collection scans all rows. The larger heap halves the cost of
// garbage collection.
const serverGOGC = 200

// reserveSize is the size in bytes of reserve.
const reserveSize = 16 << 20

// reserve keeps a small heap from being collected all the time: it counts as part of the heap that may grow
// threefold. Nothing writes to it, so it takes no memory unless the allocator finds its addresses used.
var reserve atomic.Pointer[[reserveSize]byte]

// setGOGC sets GOGC of a server unless the environment has GOGC or GOMEMLIMIT.
func setGOGC(isServer bool) {
	// An operator who has set one of the variables has decided.
	if isServer &&
		os.Getenv("GOGC") == "" &&
		os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(serverGOGC)
		reserve.Store(new([reserveSize]byte))
	}
}
