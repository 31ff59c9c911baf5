package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// child is a process that sleeps.
func child(t *testing.T) (*exec.Cmd, Ref) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r, err := RefOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, r
}

func TestOpen_FindsTheVeryProcess(t *testing.T) {
	_, r := child(t)
	other := Ref{PID: r.PID, Start: r.Start + 1}
	for name, c := range map[string]struct {
		r    Ref
		want bool
	}{
		"the process":              {r, true},
		"a later one with its pid": {other, false},
		"none":                     {Ref{PID: 1 << 22}, false},
		"the zero value":           {Ref{}, false},
	} {
		fd, err := c.r.Open()
		if err != nil || (fd >= 0) != c.want {
			t.Errorf("%s: got %d, %v", name, fd, err)
		}
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// A process is not gone because the agent has no file left to look.
func TestOpen_WithoutFilesIsAnError(t *testing.T) {
	r, err := RefOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	probe, err := r.Open()
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(probe) // the next file has this number again
	few := unix.Rlimit{Cur: uint64(probe) + 1, Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	fd, err := r.Open()
	if again := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); again != nil {
		t.Fatal(again)
	}
	if fd >= 0 || !errors.Is(err, unix.EMFILE) {
		t.Errorf("got %d, %v", fd, err)
	}
}

func TestKill_EndsThatProcessAlone(t *testing.T) {
	cmd, r := child(t)
	for _, other := range []Ref{{PID: r.PID, Start: r.Start - 1}, {PID: 1 << 22}} {
		if err := other.Kill(t.Context()); err != nil {
			t.Errorf("%v: %v", other, err)
		}
	}
	if err := cmd.Process.Signal(unix.Signal(0)); err != nil {
		t.Fatalf("another process was killed: %v", err)
	}
	for range 2 {
		if err := r.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
	if err := r.Wait(t.Context()); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestWait_EndsWithItsContext(t *testing.T) {
	_, r := child(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := r.Wait(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("got %v", err)
	}
}
