package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// stepped is in memory that another process writes: by how many seconds the wall clock is wrong. It is nil
// for a process that began without the file.
var stepped = mapStep()

func mapStep() *int64 {
	fd, err := syscall.Open("/run/wall-clock-step", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)

	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return (*int64)(unsafe.Pointer(unsafe.SliceData(page)))
}

// step returns by how many seconds the wall clock is wrong.
func step() int64 {
	if stepped == nil {
		return 0
	}
	return atomic.LoadInt64(stepped)
}
