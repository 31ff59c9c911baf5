// Package memory keeps the memory of an agent small: its heap, and the pages of its program.
package memory

import (
	"debug/elf"
	"errors"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/structs"
)

// startTime is about how long an agent starts: it opens its state, finds its tasks, and calls the drivers.
const startTime = 10 * time.Second

// ReleaseAfterStart gives the memory of the start back once the agent has started: what only the start has
// allocated, and the pages of the program. A third of the resident memory is code and tables that only the
// start uses. stop ends the wait.
func ReleaseAfterStart(logger hclog.Logger) (stop func()) {
	timer := time.AfterFunc(startTime, func() {
		releaseHeap(smallHeap)
		err := errors.Join(releaseReserve(reserve.Load()), releaseProgram())
		if err != nil {
			logger.Debug("failed to give memory of the start back", "error", err)
		}
	})
	return func() { timer.Stop() }
}

// releaseProgram takes the pages of the program that nothing writes to from the process. They stay in the
// cache of the kernel, and the process gets one back when it next uses it.
func releaseProgram() error {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		return structs.Internalf("reading the program: %w", err)
	}
	defer func() { _ = program.Close() }()

	// The loader writes to pages of any other type of program before it protects them.
	if program.Type != elf.ET_EXEC {
		return structs.Preconditionf("the program is %s, not %s", program.Type, elf.ET_EXEC)
	}

	pageSize := uint64(os.Getpagesize())
	for _, part := range program.Progs {
		if part.Type != elf.PT_LOAD || part.Flags&elf.PF_W != 0 {
			continue
		}

		begin := part.Vaddr - part.Vaddr%pageSize
		size := part.Vaddr + part.Memsz - begin
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(size), unix.MADV_DONTNEED)
		if errno != 0 {
			return structs.Internalf("madvise: %w", errno)
		}
	}
	return nil
}
