package executor

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/structs"
	"berth/test/kit"
)

// specOf reads a spec from a text.
func specOf(text string) (*Spec, error) { return readSpec(json.NewDecoder(strings.NewReader(text))) }

func FuzzReadSpec(f *testing.F) {
	f.Add([]byte(`{"TaskID":"x","Program":{"Command":"sh"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := specOf(string(b)); err == nil && s.Program != nil && s.Sandbox != nil {
			t.Fatal("a spec with two programs was accepted")
		}
	})
}

func TestWriteExit_OnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("x", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := reserveExit(dir); err != nil {
		t.Fatal(err)
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 1024))
	}
	fill.Close()
	want := &driver.ExitResult{ExitCode: 3, Err: strings.Repeat("x", 5000)}
	if err := writeExit(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := readExit(dir)
	if err != nil || got.ExitCode != 3 || len(got.Err) != 1024 {
		t.Fatalf("got %+v, %v, want the exit code 3 and an error of 1024 bytes", got, err)
	}
}

func TestReadExit_ReadsTheWrittenResult(t *testing.T) {
	dir := t.TempDir()
	if r, err := readExit(dir); r != nil || err != nil {
		t.Fatalf("without a file: got %+v, %v, want nil", r, err)
	}
	want := &driver.ExitResult{Signal: 9, OOMKilled: true}
	for range 2 {
		if err := writeExit(dir, want); err != nil {
			t.Fatal(err)
		}
		r, err := readExit(dir)
		if err != nil || !reflect.DeepEqual(r, want) {
			t.Fatalf("got %+v, %v, want %+v", r, err, want)
		}
	}
	path := filepath.Join(dir, exitFile)
	if err := os.WriteFile(path, []byte("{garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readExit(dir)
	if err == nil || !strings.Contains(err.Error(), exitFile) {
		t.Fatalf("garbage: got %v, want an error with the file", err)
	}
}

func TestTakeLock_ExcludesAnother(t *testing.T) {
	dir := t.TempDir()
	wantSupervised := func(want bool) {
		t.Helper()
		got, err := supervised(dir)
		if err != nil || got != want {
			t.Fatalf("supervised: got %v, %v, want %v", got, err, want)
		}
	}
	wantSupervised(false)
	lock, err := takeLock(dir)
	if err != nil || lock == nil {
		t.Fatalf("got the lock %v, %v", lock, err)
	}
	wantSupervised(true)
	lock.Close()
	wantSupervised(false)
}

// The supervisors end before they report, do not exist, and do not answer.
func TestLaunch_ReportsFailures(t *testing.T) {
	commands := [][]string{
		{"/bin/false"},
		{"/no/such/program"},
		{"/bin/sleep", "1000"},
	}
	for _, command := range commands {
		ts := NewTasks("test", Config{Dir: t.TempDir(), Command: command}, CgroupConfig{})
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		_, err := ts.Launch(ctx, &Spec{TaskID: "a/t"})
		cancel()
		if err == nil {
			t.Fatalf("%v started a task", command)
		}
		if _, err := os.Stat(ts.DirOf("a/t")); !os.IsNotExist(err) {
			t.Errorf("%v: the task's directory is left (%v)", command, err)
		}
	}
}

func TestEnviron_AddsTheTasksVariables(t *testing.T) {
	dirs := driver.Dirs{AllocShared: "/all", Local: "/own", Secrets: "/key"}
	always := []string{
		"BERTH_ALLOC_DIR=/all", "BERTH_SECRETS_DIR=/key", "BERTH_TASK_DIR=/own", "HOME=/own",
		"NOMAD_ALLOC_DIR=/all", "NOMAD_SECRETS_DIR=/key", "NOMAD_TASK_DIR=/own",
	}
	got := Environ(map[string]string{"A": "x=y"}, dirs, "/bin", "/run/x")
	want := append(append([]string{"A=x=y"}, always...), "PATH=/bin:/run/x")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	env := map[string]string{
		"PATH":           "/a",
		"HOME":           "/h",
		"NOMAD_TASK_DIR": "/no",
	}
	got = Environ(env, dirs, "/bin", "/run/x")
	want = append(slices.Clone(always), "PATH=/a:/run/x")
	want[3] = "HOME=/h"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDecodeCommand_NamesFaults(t *testing.T) {
	c, err := DecodeCommand(map[string]any{
		"command":  "x",
		"args":     []any{"a", 1, int64(2), 1.5, 1e6, true},
		"work_dir": "w",
	})
	want := &Command{
		Command: "x",
		Args:    []string{"a", "1", "2", "1.5", "1000000", "true"},
		WorkDir: "w",
	}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Fatalf("got %+v, %v, want %+v", c, err, want)
	}
	_, err = DecodeCommand(map[string]any{"command": "x", "args": []any{"a\x00"}})
	if err == nil || !strings.Contains(err.Error(), "config.args[0]:") {
		t.Errorf("a zero byte: got %v, want an error of config.args[0]", err)
	}
	_, err = DecodeCommand(map[string]any{
		"command":  nil,
		"args":     5,
		"x":        1,
		"work_dir": "a\x00",
	})
	paths := []string{"config.command:", "config.args:", "config.x:", "config.work_dir:"}
	for _, path := range paths {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("the error does not name %s: %v", path, err)
		}
	}
}

func TestLimitsOf_Resources(t *testing.T) {
	for _, c := range []struct {
		r    structs.Resources
		want cgroups.Limits
	}{
		{structs.Resources{}, cgroups.Limits{}},
		{structs.Resources{CPU: 5, MemoryMB: 2}, cgroups.Limits{CPUShares: 5, MemoryBytes: 2 << 20}},
		{
			structs.Resources{MemoryMB: 2, MemoryMaxMB: 3},
			cgroups.Limits{MemoryBytes: 3 << 20, MemoryReserve: 2 << 20},
		},
		{structs.Resources{MemoryMB: 2, MemoryMaxMB: 1}, cgroups.Limits{MemoryBytes: 2 << 20}},
		{structs.Resources{MemoryMB: math.MaxInt}, cgroups.Limits{MemoryBytes: structs.MaxMemoryMB << 20}},
		{structs.Resources{MemoryMB: -5}, cgroups.Limits{}},
	} {
		if got := limitsOf(c.r); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: got %+v, want %+v", c.r, got, c.want)
		}
	}
}

func TestMain_RejectsWrongCalls(t *testing.T) {
	for _, args := range [][]string{nil, {"a", "b"}} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMainAsChild$")
		cmd.Env = append(os.Environ(), "EXECUTOR_ARGS="+strings.Join(args, " "))
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 2 {
			t.Errorf("%v: got the exit code %d (%v), want 2", args, code, err)
		}
	}
}

// TestMainAsChild is the separate process of TestMain_RejectsWrongCalls.
func TestMainAsChild(t *testing.T) {
	args, ok := os.LookupEnv("EXECUTOR_ARGS")
	if !ok {
		t.Skip("runs as a child only")
	}
	os.Exit(Main(strings.Fields(args)))
}

func TestRestrictsDevices_FollowsTheProbe(t *testing.T) {
	for why, want := range map[string]bool{"": true, "the kernel has no such program": false} {
		m := &cgroups.Machine{Missing: map[string]string{cgroups.Devices: why}}
		ts := &Tasks{limits: &limiter{machine: m}}
		if got := ts.RestrictsDevices(); got != want {
			t.Errorf("with the reason %q: got %v", why, got)
		}
		says := ts.Healthy().HealthDescription
		if strings.Contains(says, "devices limits are not enforced") == want {
			t.Errorf("with the reason %q the driver says %q", why, says)
		}
	}
}
