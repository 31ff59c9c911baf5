package kit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// LookUps is a file system in which all look-ups hang.
type LookUps struct {
	Path string // a file that may be there

	t      *testing.T
	device int // of FUSE; its close ends the look-ups, also by the end of this process
}

// HangLookUps mounts a file system whose look-ups hang until the end of the test. The process that looks up
// can be killed, but for Hold.
func HangLookUps(t *testing.T) *LookUps {
	t.Helper()
	dir := t.TempDir()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, os.Geteuid(), os.Getegid())
		err = unix.Mount("hang", dir, "fuse.hang", 0, options)
		if err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		SkipLacking(t, "FUSE: "+err.Error())
	}

	t.Cleanup(func() {
		err := errors.Join(unix.Close(fd), unix.Unmount(dir, unix.MNT_DETACH))
		if err != nil {
			t.Error(err)
		}
	})

	if err := answerInit(fd); err != nil {
		t.Fatal(err)
	}

	return &LookUps{Path: dir + "/program", t: t, device: fd}
}

// minRead is the shortest read to which the kernel passes a request, in bytes.
const minRead = 8192

// answerInit answers FUSE_INIT, which the kernel sends first.
func answerInit(fd int) error {
	const (
		header = 16 // of an answer: its size, the error, the number of the request
		size   = header + 64
		major  = 7
		minor  = 31
	)

	request := make([]byte, minRead)
	_, err := unix.Read(fd, request)
	if err != nil {
		return fmt.Errorf("reading the first request of FUSE: %w", err)
	}

	answer := make([]byte, size)
	binary.NativeEndian.PutUint32(answer, size)
	copy(answer[8:header], request[8:header])
	binary.NativeEndian.PutUint32(answer[header:], major)
	binary.NativeEndian.PutUint32(answer[header+4:], minor)
	_, err = unix.Write(fd, answer)
	if err != nil {
		return fmt.Errorf("answering the first request of FUSE: %w", err)
	}

	return nil
}

// Await waits until a process looks up a file. It does not read the request: the process could not be killed
// after that.
func (l *LookUps) Await() {
	l.t.Helper()
	asked := []unix.PollFd{{Fd: int32(l.device), Events: unix.POLLIN}}
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Poll(asked, int(patience.Milliseconds()))
	}
	if err != nil || asked[0].Revents&unix.POLLIN == 0 {
		l.t.Fatalf("no process looks up a file (%v)", err)
	}
}

// Hold takes the look-up that Await has seen: the process cannot be killed until the end of the test.
func (l *LookUps) Hold() {
	l.t.Helper()
	_, err := unix.Read(l.device, make([]byte, minRead))
	if err != nil {
		l.t.Fatalf("reading a request of FUSE: %v", err)
	}
}
