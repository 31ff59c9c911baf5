package memory

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
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

// smallHeap is the most bytes of objects of a heap that is given back.
const smallHeap = 64 << 20

// releaseHeap collects the heap and gives its free memory back, if its objects have at most so many bytes. An
// idle server allocates so little that its next collection would be minutes away. A busy server with a large
// heap would take the memory again at once, and pay a fault for each page.
func releaseHeap(most uint64) {
	objects := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(objects)
	if objects[0].Value.Uint64() <= most {
		debug.FreeOSMemory()
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
