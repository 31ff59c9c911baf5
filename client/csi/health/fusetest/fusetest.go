// Package fusetest serves a FUSE file system of a test: it has one file, it can hang, and it can die. It
// speaks as much of the protocol of the kernel (linux/fuse.h) as the tests need.
package fusetest

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/testskip"
)

// File is the name of its one file.
const File = "f"

// The operations of the protocol that have an answer here.
const (
	opLookup  = 1
	opGetattr = 3
	opOpen    = 14
	opRead    = 15
	opStatfs  = 17
	opRelease = 18
	opInit    = 26
	opOpendir = 27
	opRelDir  = 29
	opAccess  = 34
)

// The operations without an answer.
const (
	opForget    = 2
	opInterrupt = 36
	opBatch     = 42
)

// FS is a file system whose server is this process.
type FS struct {
	content string

	mu    sync.Mutex
	dev   *os.File // nil once it has died
	hangs chan struct{}
	done  chan struct{}
}

// Mount mounts a file system on a directory, with a file of a content. The test skips without FUSE.
func Mount(t testing.TB, dir, content string) *FS {
	t.Helper()
	if os.Geteuid() != 0 {
		testskip.Lacking(t, "root: it mounts")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		testskip.Lacking(t, "FUSE: "+err.Error())
	}
	f, err := Serve(dir, content)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Die)
	return f
}

// Serve is Mount without a test.
func Serve(dir, content string) (*FS, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/fuse", Err: err}
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	err = unix.Mount("fusetest", dir, "fuse.test", 0, options)
	if err != nil {
		_ = unix.Close(fd) // it has no mount
		return nil, &os.PathError{Op: "mount", Path: dir, Err: err}
	}

	f := &FS{content: content, dev: os.NewFile(uintptr(fd), "/dev/fuse"), done: make(chan struct{})}
	go f.serve(f.dev)
	return f, nil
}

// Die ends the server, as kill -9 of it does: the mount stays, and each system call on it fails.
func (f *FS) Die() {
	f.Resume()
	f.mu.Lock()
	dev := f.dev
	f.dev = nil
	f.mu.Unlock()
	if dev != nil {
		_ = dev.Close() // nothing was written
		<-f.done
	}
}

// Hang lets all requests wait until Resume or Die.
func (f *FS) Hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs = make(chan struct{})
}

// Resume ends Hang.
func (f *FS) Resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs != nil {
		close(f.hangs)
		f.hangs = nil
	}
}

func (f *FS) serve(dev *os.File) {
	defer close(f.done)
	buf := make([]byte, 1<<20)
	for {
		n, err := dev.Read(buf)
		if err != nil {
			return // it has died, or nothing is mounted any more
		}
		f.mu.Lock()
		hangs := f.hangs
		f.mu.Unlock()
		if hangs != nil {
			<-hangs
		}
		if answer := f.answer(buf[:n]); answer != nil {
			_, _ = dev.Write(answer) // an interrupted request takes no answer
		}
	}
}

const headerIn = 40

// answer returns the answer to a request, nil for none.
func (f *FS) answer(req []byte) []byte {
	le := binary.LittleEndian
	op := le.Uint32(req[4:])
	node := le.Uint64(req[16:])
	body := req[headerIn:]
	switch op {
	case opForget, opInterrupt, opBatch:
		return nil
	case opInit:
		out := make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint32(out[20:], 1<<16) // max_write
		return reply(req, 0, out)
	case opGetattr:
		return reply(req, 0, append(make([]byte, 16), f.attr(node)...))
	case opLookup:
		if string(body[:len(body)-1]) != File {
			return reply(req, unix.ENOENT, nil)
		}
		out := make([]byte, 40)
		le.PutUint64(out, 2)
		return reply(req, 0, append(out, f.attr(2)...))
	case opOpen, opOpendir:
		return reply(req, 0, make([]byte, 16))
	case opRead:
		from := min(le.Uint64(body[8:]), uint64(len(f.content)))
		return reply(req, 0, []byte(f.content[from:]))
	case opStatfs:
		out := make([]byte, 80)
		le.PutUint64(out, 1000)
		le.PutUint64(out[8:], 500)
		le.PutUint64(out[16:], 500)
		le.PutUint32(out[40:], 4096)
		le.PutUint32(out[44:], 255)
		le.PutUint32(out[48:], 4096)
		return reply(req, 0, out)
	case opRelease, opRelDir, opAccess:
		return reply(req, 0, nil)
	}
	return reply(req, unix.ENOSYS, nil)
}

// attr returns the attributes of the root (1) or of the file.
func (f *FS) attr(node uint64) []byte {
	le := binary.LittleEndian
	a := make([]byte, 88)
	le.PutUint64(a, node)
	mode := uint32(unix.S_IFDIR | 0o755)
	if node != 1 {
		mode = unix.S_IFREG | 0o644
		le.PutUint64(a[8:], uint64(len(f.content)))
	}
	le.PutUint32(a[60:], mode)
	le.PutUint32(a[64:], 1) // nlink
	return a
}

func reply(req []byte, errno syscall.Errno, out []byte) []byte {
	le := binary.LittleEndian
	b := make([]byte, 16, 16+len(out))
	le.PutUint32(b, uint32(16+len(out)))
	le.PutUint32(b[4:], uint32(-int32(errno)))
	le.PutUint64(b[8:], le.Uint64(req[8:]))
	return append(b, out...)
}
