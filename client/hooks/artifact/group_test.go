package artifact

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/structs"
	"berth/test/kit"
)

// groupsLeft returns the cgroups of downloads of the fixture.
func (f *fixture) groupsLeft() []string {
	a := &artifacts{taskDir: filepath.Join(f.env.Dir, "web")}
	g := f.cfg.Groups.Machine.Path(groupParent, a.groupName())
	var left []string
	for _, dir := range append(slices.Collect(maps.Values(g.V1)), g.V2) {
		if _, err := os.Stat(dir); dir != "" && err == nil {
			left = append(left, dir)
		}
	}
	return left
}

func needGroups(t *testing.T, f *fixture, controller string) {
	t.Helper()
	m := f.cfg.Groups.Machine
	if err := m.Probe(groupParent); err != nil || m.Missing[controller] != "" {
		kit.SkipLacking(t, "cgroups with the controller "+controller)
	}
}

func TestGroup_BoundsTheProcessesOfADownload(t *testing.T) {
	before := groupMemory
	t.Cleanup(func() { groupMemory = before })
	for _, c := range []struct {
		do, with, controller, want string
		memory                     int64
	}{
		// The processes of a test with the race detector are large.
		{"fork", "", cgroups.PIDs, "resource temporarily unavailable", before},
		{"fill memory", strconv.Itoa(256 << 20), cgroups.Memory, "more than the 64 MiB of memory", 64 << 20},
	} {
		groupMemory = c.memory
		f := newFixture(t)
		needGroups(t, f, c.controller)
		f.cfg.Command = []string{kit.PlainProgram(), hostile}
		f.withDisk(1) // a file system in memory adds it to the bound
		err := f.up(t.Context(), doing(c.do, c.with))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.do, err, c.want)
		}
		if left := f.groupsLeft(); len(left) > 0 {
			t.Errorf("%s: the groups %v are left", c.do, left)
		}
		f.checkUntouched()
	}
}

// The files of a download may be memory, for example if the data directory is in a tmpfs.
func TestGroup_FitsFilesInMemory(t *testing.T) {
	before := groupMemory
	groupMemory = 64 << 20
	t.Cleanup(func() { groupMemory = before })
	f := newFixture(t)
	needGroups(t, f, cgroups.Memory)
	dir := filepath.Join(f.env.Dir, "web")
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=200m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	f.mux.HandleFunc("/x", func(w http.ResponseWriter, _ *http.Request) {
		for range 96 {
			_, _ = w.Write(zeros)
		}
	})
	f.withDisk(100)
	f.mustUp(artifact("${URL}/x"))
}

// A download has a small share of the processors, and at most two of them.
func TestGroup_SharesTheProcessors(t *testing.T) {
	f := newFixture(t)
	needGroups(t, f, cgroups.CPU)
	a := &artifacts{taskDir: filepath.Join(f.env.Dir, "web")}
	g := f.cfg.Groups.Machine.Path(groupParent, a.groupName())
	want := map[string]string{"cpu.shares": "256", "cpu.cfs_quota_us": "200000"}
	dir := g.V1[cgroups.CPU]
	if dir == "" {
		want = map[string]string{"cpu.weight": "10", "cpu.max": "200000 100000"}
		dir = g.V2
	}
	f.mux.HandleFunc("/x", func(http.ResponseWriter, *http.Request) {
		for file, value := range want {
			got, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || strings.TrimSpace(string(got)) != value {
				t.Errorf("%s is %q, %v; want %s", file, got, err, value)
			}
		}
	})
	f.mustUp(artifact("${URL}/x"))
}

func TestGroup_IsGoneAfterADownload(t *testing.T) {
	f := newFixture(t)
	needGroups(t, f, cgroups.Memory)
	held := make(chan []string, 1)
	f.mux.HandleFunc("/x", func(http.ResponseWriter, *http.Request) { held <- f.groupsLeft() })
	f.mustUp(artifact("${URL}/x"))
	if during := <-held; len(during) == 0 {
		t.Error("the download had no group")
	}
	if left := f.groupsLeft(); len(left) > 0 {
		t.Errorf("the groups %v are left", left)
	}
}

// An agent that was killed leaves a group.
func TestDown_RemovesTheGroupOfAKilledAgent(t *testing.T) {
	f := newFixture(t)
	needGroups(t, f, cgroups.Memory)
	a := &artifacts{cfg: f.cfg, taskDir: filepath.Join(f.env.Dir, "web")}
	_, err := f.cfg.Groups.Machine.New(groupParent, a.groupName(), cgroups.Limits{})
	if err != nil || len(f.groupsLeft()) == 0 {
		t.Fatalf("made the groups %v, %v", f.groupsLeft(), err)
	}
	f.env.Task.Artifacts = append(f.env.Task.Artifacts, artifact("http://x/y"))
	err = New(f.cfg, f.env.AllocEnv, f.env.Task).Down(t.Context())
	if left := f.groupsLeft(); err != nil || len(left) > 0 {
		t.Errorf("the groups %v are left, %v", left, err)
	}
}

func TestUp_DownloadsWithoutCgroups(t *testing.T) {
	f := newFixture(t)
	var logs bytes.Buffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &logs})
	f.cfg.Groups = &Groups{Machine: &cgroups.Machine{}, Logger: logger}
	f.file("x", []byte("x"))
	f.mustUp(artifact("${URL}/x"), artifact("${URL}/x"))
	if n := strings.Count(logs.String(), "have no cgroups"); n != 1 {
		t.Errorf("got %d lines about cgroups: %s", n, logs.String())
	}
}

// faultyGroups has one hierarchy, in which a group has no limits.
func faultyGroups(t *testing.T, logs io.Writer) *Groups {
	t.Helper()
	return &Groups{
		Machine: &cgroups.Machine{V1: map[string]string{cgroups.Memory: t.TempDir()}},
		Logger:  hclog.New(&hclog.LoggerOptions{Output: logs}),
	}
}

// A node with cgroups downloads nothing without them.
func TestUp_FailsIfTheCgroupCannotBeMade(t *testing.T) {
	f := newFixture(t)
	var logs bytes.Buffer
	f.cfg.Groups = faultyGroups(t, &logs)
	f.file("x", []byte("x"))
	for range 2 {
		err := f.up(t.Context(), artifact("${URL}/x"))
		if err == nil || !strings.Contains(err.Error(), "no cgroup bounds the download: ") ||
			!structs.IsKind(err, structs.KindUnavailable) || len(f.requests) > 0 {
			t.Errorf("got %v after %d requests", err, len(f.requests))
		}
	}
	if logs.Len() > 0 {
		t.Errorf("the log says %s", logs.String())
	}
	f.checkUntouched()
}

// An agent that was killed may leave a process in a group.
func TestUp_EndsTheProcessesOfAKilledAgent(t *testing.T) {
	f := newFixture(t)
	needGroups(t, f, cgroups.Memory)
	a := &artifacts{cfg: f.cfg, taskDir: filepath.Join(f.env.Dir, "web")}
	group, err := f.cfg.Groups.Machine.New(groupParent, a.groupName(), cgroups.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	left := exec.Command("sleep", "1000")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = left.Process.Kill() }()
	for _, dir := range append(slices.Collect(maps.Values(group.V1)), group.V2) {
		if dir == "" {
			continue
		}
		pid := strconv.Itoa(left.Process.Pid)
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pid), 0); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = left.Wait()
	}()
	f.file("x", []byte("x"))
	f.mustUp(artifact("${URL}/x"))
	await(t, ended, "end of the process")
}

// A group with a file cannot be removed.
func TestGroups_KeepTheResultOfADownload(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx    context.Context
		killed string
		err    error
		want   string
	}{
		{t.Context(), "0", nil, ""},
		{t.Context(), "1", nil, ""},
		{t.Context(), "0", unix.EIO, unix.EIO.Error()},
		{t.Context(), "1", unix.EIO, "it needs more than the 1024 MiB of memory"},
		{ended, "1", unix.EIO, unix.EIO.Error()},
	} {
		var logs bytes.Buffer
		groups := faultyGroups(t, &logs)
		dir := groups.Machine.V1[cgroups.Memory]
		control := filepath.Join(dir, "memory.oom_control")
		if err := os.WriteFile(control, []byte("oom_kill "+c.killed+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := groups.remove(c.ctx, &cgroups.Group{V1: groups.Machine.V1}, c.err)
		if (got == nil) != (c.err == nil) || got != nil && !strings.Contains(got.Error(), c.want) {
			t.Errorf("%+v: got %v", c, got)
		}
		if n := strings.Count(logs.String(), "failed to remove the cgroup"); n != 1 {
			t.Errorf("%+v: got %d lines: %s", c, n, logs.String())
		}
	}
}

// All downloads together may not have more than a quarter of the memory, but two always run.
func TestSlots_FollowTheMemoryOfTheNode(t *testing.T) {
	for memory, want := range map[uint64]int64{
		1 << 30:   2,
		8 << 30:   2,
		16 << 30:  4,
		24 << 30:  6,
		512 << 30: 8,
	} {
		if got := slotsOf(memory); got != want {
			t.Errorf("%d GiB: got %d, want %d", memory>>30, got, want)
		}
	}
}
