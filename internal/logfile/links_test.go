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
)

// The task owns the directory, and root on the host writes and reads its logs.
func TestLogfile_FollowsNoLinkInTheTasksDirectory(t *testing.T) {
	host := t.TempDir()
	secret := filepath.Join(host, "shadow")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	same := func() {
		t.Helper()
		if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
			t.Errorf("the host's file is %q, %v", b, err)
		}
	}
	t.Run("a file", func(t *testing.T) {
		dir := t.TempDir()
		r := newRotator(t, dir, 3, 4)
		write(t, r, "abcd")
		must(t, os.Symlink(secret, filepath.Join(dir, Name("web.x", Stdout, 1))))
		write(t, r, "owned")
		same()
		in, err := Open(context.Background(), Options{Dir: dir, Task: "web.x", Kind: Stdout})
		must(t, err)
		defer in.Close()
		b, err := io.ReadAll(in)
		if strings.Contains(string(b), "secret") || err == nil {
			t.Errorf("read %q, %v", b, err)
		}
		_, err = NewRotator(Config{Dir: dir, Task: "web.x", Kind: Stdout, MaxFiles: 1, MaxFileSize: 1})
		if err == nil {
			t.Error("a link is appended to")
		}
	})
	t.Run("the directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "logs")
		must(t, os.Mkdir(dir, 0o755))
		r := newRotator(t, dir, 1, 1)
		write(t, r, "a")
		must(t, os.Rename(dir, dir+".old"))
		must(t, os.WriteFile(filepath.Join(host, Name("web.x", Stdout, 7)), []byte("other"), 0o600))
		must(t, os.Symlink(host, dir))
		write(t, r, "bcd")
		if got := files(t, host); got != "shadow=secret web.x.stdout.7=other" {
			t.Errorf("the host's directory has %s", got)
		}
		if in, err := Open(context.Background(), Options{Dir: dir, Task: "web.x", Kind: Stdout}); err == nil {
			b, _ := io.ReadAll(in)
			t.Errorf("read %q", b)
		}
	})
}

func TestLogfile_IsNotBlockedByAPipe(t *testing.T) {
	dir := t.TempDir()
	r := newRotator(t, dir, 3, 1)
	write(t, r, "a")
	must(t, syscall.Mkfifo(filepath.Join(dir, Name("web.x", Stdout, 1)), 0o600))
	done := make(chan struct{})
	go func() {
		defer close(done)
		write(t, r, "b")
		o := Options{Dir: dir, Task: "web.x", Kind: Stdout, Origin: FromEnd}
		if in, err := Open(context.Background(), o); err == nil {
			_, _ = io.ReadAll(in)
			in.Close()
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("blocked by a pipe")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
