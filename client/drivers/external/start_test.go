package external

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/structs"
)

// wantUnavailable checks that a task is neither started nor gone.
func (a *agent) wantUnavailable(cfg *driver.TaskConfig, why string) {
	a.f.t.Helper()
	err := a.Destroy(a.f.t.Context(), cfg.ID, nil)
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), why) {
		a.f.t.Errorf("destroying: %v, want %q", err, why)
	}
	_, err = a.Start(a.f.t.Context(), cfg)
	if !structs.IsKind(err, structs.KindUnavailable) {
		a.f.t.Errorf("starting again: %v", err)
	}
	if n := a.f.plugin.Calls("StartTask"); n != 1 {
		a.f.t.Errorf("the plugin was asked to start the task %d times", n)
	}
}

// A start cannot be taken back: the plugin may start the task after its caller has given up.
func TestStart_ThatWasGivenUpIsRemovedAfterItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	f.plugin.Set("pull", drivertest.Hang)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		f.plugin.Await("StartTask", 1)
		cancel()
	}()
	_, err := a.Start(ctx, cfg)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Fatalf("got %v", err)
	}
	a.wantUnavailable(cfg, "still starts task")
	f.plugin.Set("pull", "")
	f.until("the task is gone", func() bool { return a.Destroy(t.Context(), cfg.ID, nil) == nil })
	if left := f.helpers(); len(left) != 0 {
		t.Errorf("helpers are left: %v", left)
	}
	a.start(cfg) // the plugin rejects a task that it has
	a.destroy(cfg.ID)
}

// A task whose plugin ended before its answer has no handle. It keeps what it has until it ends.
func TestStart_WithoutAnAnswerLeavesATaskThatIsNotForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", strings.TrimPrefix(loops, "echo up; ")) // its helper ends: it must not write
	f.plugin.Set("answer", drivertest.Exit)
	_, err := a.Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Fatalf("got %v", err)
	}
	f.plugin.Set("answer", "")
	a.await("undetected", func(info *structs.DriverInfo) bool { return !info.Detected })
	a.await("healthy again", func(info *structs.DriverInfo) bool { return info.Healthy })
	a.wantUnavailable(cfg, "web.stdout.fifo")
	f.end(cfg)
	f.until("the task is gone", func() bool { return a.Destroy(t.Context(), cfg.ID, nil) == nil })
	a.start(cfg)
	a.destroy(cfg.ID)
}

// A task puts a link in the place of its logs, and is started again. The pipes of its output are not among
// its files.
func TestStart_FollowsNoLinkInTheTasksDirectory(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, f *fixture) {
		a := f.agent()
		host := t.TempDir()
		for _, name := range []string{".web.stdout.fifo", ".web.stderr.fifo"} {
			if err := os.WriteFile(filepath.Join(host, name), []byte("of the host"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg := f.task("a1", "echo up")
		err := os.Remove(cfg.Dirs.Logs)
		if err == nil {
			err = os.Symlink(host, cfg.Dirs.Logs)
		}
		if err != nil {
			t.Fatal(err)
		}
		a.start(cfg)
		a.wait(cfg.ID)
		a.destroy(cfg.ID)
		left, err := os.ReadDir(host)
		if err != nil || len(left) != 2 || !left[0].Type().IsRegular() || !left[1].Type().IsRegular() {
			t.Errorf("the host's directory has %v, %v", left, err)
		}
		f.awaitOutput(cfg, "up\n")
	})
}

func TestCheckUnused_NamesAPipeWithAWriter(t *testing.T) {
	dir := t.TempDir()
	p := pipes{stdout: filepath.Join(dir, "out"), stderr: filepath.Join(dir, "err")}
	if err := p.checkUnused(); err != nil {
		t.Errorf("without pipes: %v", err)
	}
	for _, path := range []string{p.stdout, p.stderr} {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{p.stdout, p.stderr} {
		if err := p.checkUnused(); err != nil {
			t.Errorf("without a writer: %v", err)
		}
		writer, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", "some output"} {
			if _, err := writer.WriteString(text); err != nil {
				t.Fatal(err)
			}
			err := p.checkUnused()
			if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), path) {
				t.Errorf("with a writer that wrote %q: %v", text, err)
			}
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.checkUnused(); err != nil {
		t.Errorf("after the writers: %v", err)
	}
}
