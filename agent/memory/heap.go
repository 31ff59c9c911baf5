package memory

import (
	"os"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// serverGOGC lets the heap of a server grow threefold, and not twofold, before a collection. Rows live long,
// the memory of a request does not, and each collection scans all rows. The larger heap halves the cost of
// garbage collection.
const serverGOGC = 200

// reserveSize is the size in bytes of reserve.
const reserveSize = 16 << 20

// reserve keeps a small heap from being collected all the time: it counts as part of the heap that may grow
// threefold. It takes no memory once ReleaseAfterStart has given its pages back: nothing uses them.
var reserve atomic.Pointer[[reserveSize]byte]

// SetGOGC sets GOGC of a server unless the environment has GOGC or GOMEMLIMIT.
func SetGOGC(isServer bool) {
	// An operator who has set one of the variables has decided.
	if isServer &&
		os.Getenv("GOGC") == "" &&
		os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(serverGOGC)
		reserve.Store(new([reserveSize]byte))
	}
}

// releaseReserve gives the pages of the reserve back. The allocator writes zeroes to them if their addresses
// were in use before.
func releaseReserve(reserve *[reserveSize]byte) error {
	if reserve == nil {
		return nil
	}
	err := unix.Madvise(reserve[:], unix.MADV_DONTNEED)
	if err != nil {
		return structs.Internalf("madvise of the reserve: %w", err)
	}
	return nil
}
