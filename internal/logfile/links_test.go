package logfile

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// TestLogfile_FollowsNoLinkInTheTasksDirectory: the task owns the directory, and root on the host writes and
// reads its logs.
func TestLogfile_FollowsNoLinkInTheTasksDirectory(t *testing.T) {
	host := t.TempDir()
	secret := filepath.Join(host, "shadow")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkSecret := func() {
		t.Helper()
		if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
			t.Errorf("the host's file is %q, %v; want it unchanged", b, err)
		}
	}
	t.Run("a file", func(t *testing.T) {
		dir := t.TempDir()
		r := newRotator(t, dir, 3, 4)
		writeString(t, r, "abcd")
		kit.Must(t, os.Symlink(secret, filepath.Join(dir, Name("web.x", Stdout, 1))))
		writeString(t, r, "owned")
		checkSecret()
		in, err := Open(context.Background(), Options{Dir: dir, Task: "web.x", Kind: Stdout})
		kit.Must(t, err)
		defer in.Close()
		b, err := io.ReadAll(in)
		if strings.Contains(string(b), "secret") || err == nil {
			t.Errorf("a reader of a link got %q, %v; want an error", b, err)
		}
		_, err = NewRotator(Config{Dir: dir, Task: "web.x", Kind: Stdout, MaxFiles: 1, MaxFileSize: 1})
		if err == nil {
			t.Error("a rotator appends to a link")
		}
	})
	t.Run("the directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "logs")
		kit.Must(t, os.Mkdir(dir, 0o755))
		r := newRotator(t, dir, 1, 1)
		writeString(t, r, "a")
		kit.Must(t, os.Rename(dir, dir+".old"))
		kit.Must(t, os.WriteFile(filepath.Join(host, Name("web.x", Stdout, 7)), []byte("other"), 0o600))
		kit.Must(t, os.Symlink(host, dir))
		if in, err := Open(context.Background(), Options{Dir: dir, Task: "web.x", Kind: Stdout}); err == nil {
			b, _ := io.ReadAll(in)
			t.Errorf("a reader of a linked directory got %q, want an error", b)
		}
		writeString(t, r, "bcd")
		if got, want := listFiles(t, host), "shadow=secret web.x.stdout.7=other"; got != want {
			t.Errorf("the host's directory has %s, want %s", got, want)
		}
	})
}

func TestLogfile_IsNotBlockedByAPipe(t *testing.T) {
	dir := t.TempDir()
	r := newRotator(t, dir, 3, 1)
	writeString(t, r, "a")
	kit.Must(t, syscall.Mkfifo(filepath.Join(dir, Name("web.x", Stdout, 1)), 0o600))
	done := make(chan struct{})
	go func() {
		defer close(done)
		writeString(t, r, "b")
		o := Options{Dir: dir, Task: "web.x", Kind: Stdout, Origin: FromEnd}
		if in, err := Open(context.Background(), o); err == nil {
			_, _ = io.ReadAll(in)
			in.Close()
		}
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("a pipe blocks the writer or the reader")
	}
}

// A task may make the device of a watchdog, which resets the machine after an open.
func TestLogfile_OpensNoDevice(t *testing.T) {
	dir := t.TempDir()
	r := newRotator(t, dir, 3, 1)
	writeString(t, r, "a")
	device := filepath.Join(dir, Name("web.x", Stdout, 1))
	kit.MakeDevice(t, device, unix.S_IFCHR|0o666, unix.Mkdev(1, 3))
	opened := kit.WatchOpens(t, device)
	writeString(t, r, "b")
	o := Options{Dir: dir, Task: "web.x", Kind: Stdout, Origin: FromEnd}
	if in, err := Open(context.Background(), o); err == nil {
		_, _ = io.ReadAll(in)
		in.Close()
	}
	if opened() {
		t.Error("the writer or the reader has opened the device")
	}
}
