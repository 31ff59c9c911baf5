package kit

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// FUSEFile is the name of its one file.
const FUSEFile = "f"

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

// FUSEArg makes the binary of a test serve a file system: see ServeFUSE.
const FUSEArg = "fusetest"

// FUSE is a file system with a server process. It has one file, and speaks as much of the protocol of the
// kernel (linux/fuse.h) as the tests need.
type FUSE struct{ cmd *exec.Cmd }

// MountFUSE mounts a file system on a directory, with a file of a content. The main function of the test has
// to call ServeFUSE. The test skips without FUSE.
func MountFUSE(t testing.TB, dir, content string) *FUSE {
	t.Helper()
	if os.Geteuid() != 0 {
		SkipLacking(t, "root: it mounts")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		SkipLacking(t, "FUSE: "+err.Error())
	}

	f := &FUSE{cmd: exec.Command(os.Args[0], FUSEArg, dir, content)}
	f.cmd.Stderr = os.Stderr
	out, err := f.cmd.StdoutPipe()
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Die)
	_, err = io.ReadFull(out, make([]byte, 1))
	if err != nil {
		t.Fatalf("the server has not mounted %s: %v", dir, err)
	}
	return f
}

// Die ends the server with kill -9: the mount stays, and each system call on it fails.
func (f *FUSE) Die() {
	_ = f.cmd.Process.Kill() // it may have ended
	_ = f.cmd.Wait()         // its end is that signal
}

// Hang lets all requests wait until Resume or Die.
func (f *FUSE) Hang() { _ = f.cmd.Process.Signal(syscall.SIGSTOP) }

// Swallow lets the server take all further requests and answer none. The kernel does not give up a request
// that was taken: not even SIGKILL ends a process that made one, before Die.
func (f *FUSE) Swallow() { _ = f.cmd.Process.Signal(swallowFUSE) }

// swallowFUSE makes a server swallow all requests.
const swallowFUSE = syscall.SIGUSR1

// Resume ends Hang.
func (f *FUSE) Resume() { _ = f.cmd.Process.Signal(syscall.SIGCONT) }

// ServeFUSE is the program of the server, with a directory and a content. It serves until its end.
func ServeFUSE(args []string) int {
	err := serve(args[0], args[1])
	fmt.Fprintln(os.Stderr, "fusetest:", err)
	return 1
}

func serve(dir, content string) error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/fuse", Err: err}
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	err = unix.Mount("fusetest", dir, "fuse.test", 0, options)
	if err != nil {
		return &os.PathError{Op: "mount", Path: dir, Err: err}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, swallowFUSE)
	fmt.Print("+")

	f := &fuseServer{content}
	swallowing := false
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.ENODEV:
			return nil // nothing is mounted any more
		case err == unix.EINTR || err == unix.ENOENT:
			continue // a request was interrupted
		case err != nil:
			return err
		}
		select {
		case <-signals:
			swallowing = true
		default:
		}
		// Without the first answer of a server the kernel gives it no request.
		if swallowing && binary.LittleEndian.Uint32(buf[4:]) != opInit {
			continue
		}
		if answer := f.answer(buf[:n]); answer != nil {
			_, _ = unix.Write(fd, answer) // an interrupted request takes no answer
		}
	}
}

type fuseServer struct{ content string }

const fuseHeaderIn = 40

// answer returns the answer to a request, nil for none.
func (f *fuseServer) answer(req []byte) []byte {
	le := binary.LittleEndian
	op := le.Uint32(req[4:])
	node := le.Uint64(req[16:])
	body := req[fuseHeaderIn:]
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
		if string(body[:len(body)-1]) != FUSEFile {
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
func (f *fuseServer) attr(node uint64) []byte {
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
