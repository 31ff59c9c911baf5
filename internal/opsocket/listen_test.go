package opsocket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/test/kit"
)

// socketIn returns the path of a socket in a new directory.
func socketIn(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "berth.sock")
}

func mustListen(t *testing.T, path string) net.Listener {
	t.Helper()
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// wantRejected fails the test unless nobody can listen on a path, for a reason that has the text.
func wantRejected(t *testing.T, path, text string) {
	t.Helper()
	ln, err := listen(path, time.Nanosecond)
	if err == nil {
		_ = ln.Close()
		t.Fatal("the agent listens")
	}
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (%s), want %q", err, structs.KindOf(err), text)
	}
}

// leaveSocket leaves the socket of an agent that has died.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestServed_TakesTheFirstSocketWithAnAgent(t *testing.T) {
	none := socketIn(t)
	left := socketIn(t)
	leaveSocket(t, left)
	first := socketIn(t)
	mustListen(t, first)
	second := socketIn(t)
	mustListen(t, second)
	if got := Served(none, left, first, second); got != first {
		t.Errorf("got %q, want %q", got, first)
	}
	if got := Served(none, left); got != "" {
		t.Errorf("got %q without an agent", got)
	}
}

// The test does not run beside others, because the umask is one of the process.
func TestListen_OnlyItsUserMayOpenTheSocket(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	path := socketIn(t)
	mustListen(t, path)
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Fatalf("got the mode %v, error %v", info.Mode(), err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		t.Errorf("the socket belongs to user %d", owner)
	}
}

func TestListen_ReplacesTheSocketOfADeadAgent(t *testing.T) {
	path := socketIn(t)
	leaveSocket(t, path)
	mustListen(t, path)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestListen_KeepsTheSocketOfALiveAgent(t *testing.T) {
	path := socketIn(t)
	mustListen(t, path)
	wantRejected(t, path, "another agent uses it")
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the first agent has lost its socket: %v", err)
	}
	_ = conn.Close()
}

func TestListen_WaitsForASocketInUse(t *testing.T) {
	path := socketIn(t)
	first := mustListen(t, path)
	go func() {
		conn, err := first.Accept() // the second agent asks whether somebody listens
		if err == nil {
			_ = conn.Close()
		}
		_ = first.Close()
	}()
	second, err := listen(path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}

func TestListen_RemovesNothingButASocket(t *testing.T) {
	for name, place := range map[string]func(t *testing.T, path string) error{
		"a file": func(_ *testing.T, path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"a directory": func(_ *testing.T, path string) error {
			return os.Mkdir(path, 0o700)
		},
		"a link to a file": func(_ *testing.T, path string) error { return os.Symlink("/etc/passwd", path) },
		"a link to nothing": func(_ *testing.T, path string) error {
			return os.Symlink(path+".other", path)
		},
		"a link to a dead socket": func(t *testing.T, path string) error {
			leaveSocket(t, path+".other")
			return os.Symlink(path+".other", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketIn(t)
			if err := place(t, path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			wantRejected(t, path, "no socket has this path")
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("the file has changed: %v", err)
			}
		})
	}
}

func TestListen_RejectsADirectoryThatOthersWrite(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"writable by the group": {func(dir string) error { return os.Chmod(dir, 0o770) }, "chmod go-w"},
		"writable by all":       {func(dir string) error { return os.Chmod(dir, 0o1777) }, "chmod go-w"},
		"of another user":       {func(dir string) error { return os.Chown(dir, 4711, -1) }, "belongs to the user 4711"},
		"missing":               {os.Remove, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketIn(t)
			err := c.change(filepath.Dir(path))
			if errors.Is(err, fs.ErrPermission) {
				kit.SkipLacking(t, "root, who alone gives a directory away")
			}
			if err != nil {
				t.Fatal(err)
			}
			wantRejected(t, path, c.want)
		})
	}
}

func TestClose_RemovesItsOwnSocketAlone(t *testing.T) {
	path := socketIn(t)
	own := mustListen(t, path)
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}

	first := mustListen(t, path)
	if err := os.Remove(path); err != nil { // by hand
		t.Fatal(err)
	}
	mustListen(t, path)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of the second agent: %v", err)
	}
}

func TestCheckPath_BoundsThePath(t *testing.T) {
	longest := "/" + strings.Repeat("x", MaxPath-1)
	for path, want := range map[string]string{
		longest:         "",
		longest + "x":   "has 108 bytes; expected at most 107",
		"run/b.sock":    "expected an absolute path",
		"/run/b\n.sock": "control characters",
	} {
		err := CheckPath("operator_socket", path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", path, err, want)
		}
	}
}

func TestMarked_IsFalseWithoutAMark(t *testing.T) {
	ctx := context.Background()
	if Marked(ctx) || !Marked(Mark(ctx)) {
		t.Errorf("got %t without the mark, %t with it", Marked(ctx), Marked(Mark(ctx)))
	}
}
