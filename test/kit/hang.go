package kit

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds the wait for an execution.
const patience = 2 * time.Minute

// Hang holds the executions of one file up.
type Hang struct {
	t      *testing.T
	events *os.File // its close lets all executions continue, also by the end of this process
	began  chan int
	ended  chan struct{}
}

// HangExec holds each execution of a file up until Release or the end of the test. The process that executes
// it can be killed meanwhile.
func HangExec(t *testing.T, path string) *Hang {
	t.Helper()
	const flags = unix.FAN_CLASS_CONTENT | unix.FAN_CLOEXEC | unix.FAN_NONBLOCK
	fd, err := unix.FanotifyInit(flags, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		SkipLacking(t, "permission events of fanotify: "+err.Error())
	}

	h := &Hang{
		t:      t,
		events: os.NewFile(uintptr(fd), "fanotify"),
		began:  make(chan int, 64),
		ended:  make(chan struct{}),
	}

	go h.read()
	t.Cleanup(h.Release)
	err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_EXEC_PERM, unix.AT_FDCWD, path)
	if err != nil {
		SkipLacking(t, "permission events of fanotify: "+err.Error())
	}

	return h
}

// read passes the pids on and answers nothing.
func (h *Hang) read() {
	defer close(h.ended)
	var e unix.FanotifyEventMetadata
	buf := make([]byte, binary.Size(e)) // of one event
	for {
		_, err := h.events.Read(buf)
		if err != nil {
			return // Release
		}
		_, err = binary.Decode(buf, binary.NativeEndian, &e)
		if err != nil || e.Mask&unix.FAN_OPEN_EXEC_PERM == 0 {
			continue
		}
		_ = unix.Close(int(e.Fd))
		h.began <- int(e.Pid)
	}
}

// Await waits for the next execution and returns the pid of the process that hangs in it.
func (h *Hang) Await() int {
	h.t.Helper()
	select {
	case pid := <-h.began:
		return pid
	case <-time.After(patience):
		h.t.Fatal("no process executes the file")
		return 0
	}
}

// Release lets all executions continue, also later ones.
func (h *Hang) Release() {
	_ = h.events.Close() // a second one only returns an error
	<-h.ended
}
