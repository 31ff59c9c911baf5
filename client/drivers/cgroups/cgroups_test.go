package cgroups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// otherMount is a line of a mount table that is not of a cgroup hierarchy.
const otherMount = "27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard\n"

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// detectCases are mount tables, the content of cgroup.controllers, and the controllers that detect finds.
var detectCases = []struct {
	name, mounts, has string
	want              []string
	missing           []string
	unused            bool // no group of the unified hierarchy is made
}{
	{
		name:   "unified",
		mounts: "41 31 0:38 / UNIFIED rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
		has:    "cpuset cpu io memory pids",
		want:   []string{"cpu(v2)", "memory(v2)", "pids(v2)", "devices(v2)"},
	},
	{
		name: "v1",
		mounts: "1 2 0:1 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"1 2 0:1 / /c/m rw - cgroup cgroup rw,memory\n" +
			"1 2 0:1 / /c/p rw - cgroup cgroup rw,pids\n" +
			"1 2 0:1 / /c/d rw - cgroup cgroup rw,devices\n",
		want: []string{"cpu(v1)", "cpuacct(v1)", "memory(v1)", "pids(v1)", "devices(v1)"},
	},
	{
		name: "hybrid",
		mounts: "1 2 0:1 / /c/m rw - cgroup cgroup rw,memory\n" +
			"41 31 0:38 / UNIFIED rw - cgroup2 cgroup2 rw\n",
		has:  "cpu pids",
		want: []string{"cpu(v2)", "memory(v1)", "pids(v2)", "devices(v2)"},
	},
	{
		name: "unified without a controller",
		mounts: "1 2 0:1 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"1 2 0:1 / /c/m rw - cgroup cgroup rw,memory\n" +
			"1 2 0:1 / /c/p rw - cgroup cgroup rw,pids\n" +
			"1 2 0:1 / /c/d rw - cgroup cgroup rw,devices\n" +
			"41 31 0:38 / UNIFIED rw - cgroup2 cgroup2 rw\n",
		want:   []string{"cpu(v1)", "cpuacct(v1)", "memory(v1)", "pids(v1)", "devices(v1)"},
		unused: true,
	},
	{
		name:    "no memory",
		mounts:  "41 31 0:38 / UNIFIED rw - cgroup2 cgroup2 rw\n",
		has:     "cpu",
		want:    []string{"cpu(v2)", "devices(v2)"},
		missing: []string{"memory", "pids"},
	},
	{
		name:    "none",
		mounts:  "garbage\n1 2 3 - x\n",
		missing: []string{"cpu", "cpuacct", "devices", "memory", "pids"},
	},
}

func TestDetect_FindsTheHierarchies(t *testing.T) {
	dir := t.TempDir()
	unified := dir + "/unified"
	for _, c := range detectCases {
		t.Run(c.name, func(t *testing.T) {
			writeFile(t, unified+"/cgroup.controllers", c.has+"\n")
			writeFile(t, dir+"/mountinfo", otherMount+strings.ReplaceAll(c.mounts, "UNIFIED", unified))
			m, err := detect(dir + "/mountinfo")
			if err != nil {
				t.Fatal(err)
			}
			missing := slices.Sorted(maps.Keys(m.Missing))
			got := m.Controllers()
			if !slices.Equal(got, c.want) || !slices.Equal(missing, c.missing) {
				t.Fatalf("got the controllers %v, missing %v; want %v, %v", got, missing, c.want, c.missing)
			}
			unified := strings.Contains(c.mounts, "cgroup2")
			if got := m.Path("berth", "task").V2 != ""; got != (unified && !c.unused) {
				t.Errorf("a group of the unified hierarchy: got %t", got)
			}
		})
	}
	if _, err := detect(dir + "/no-such"); err == nil {
		t.Fatal("detect accepts a mount table that does not exist")
	}
}

// The limits of v2 are tested on a copy of its hierarchy: regular files that exist before.
func TestLimits_AreWrittenInVersion2(t *testing.T) {
	dir := t.TempDir()
	names := []string{"cpu.max", "cpu.weight", "memory.max", "memory.low", "memory.swap.max"}
	for _, n := range names {
		writeFile(t, filepath.Join(dir, n), "")
	}
	g := &Group{V2: dir}
	limits := Limits{CPUCores: 2, CPUShares: 1024, MemoryBytes: 1 << 20, MemoryReserve: 4096}
	if err := g.applyLimits(limits); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"200000", "39", "1048576", "4096", "0"} {
		b, err := os.ReadFile(filepath.Join(dir, names[i]))
		if err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v, want %s", names[i], b, err, want)
		}
	}
	if err := os.Remove(filepath.Join(dir, "memory.swap.max")); err != nil {
		t.Fatal(err)
	}
	if err := g.applyLimits(Limits{MemoryBytes: 1}); err != nil { // a kernel without swap accounting
		t.Fatal(err)
	}
}

func TestWeight_FollowsTheShares(t *testing.T) {
	for mhz, want := range map[int]int{
		0:       0,
		1:       1,
		2:       1,
		100:     4,
		1024:    39,
		262144:  10000,
		1 << 30: 10000,
	} {
		if got := cpuWeight(mhz); got != want {
			t.Errorf("cpuWeight(%d) = %d, want %d", mhz, got, want)
		}
	}
}

func TestStats_AreReadInVersion2(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"memory.stat":         "anon 4096\nfile 1\n",
		"memory.current":      "6000\n",
		"memory.peak":         "8192\n",
		"memory.swap.current": "512\n",
		"cpu.stat":            "usage_usec 7\nuser_usec 1\nsystem_usec 6\nnr_throttled 3\nthrottled_usec 5\n",
		"memory.events":       "low 0\noom 1\noom_kill 3\n",
		"cgroup.procs":        "4000001\n4000002\n",
	} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	g := &Group{V2: dir}
	want := Stats{
		MemoryRSS:   4096,
		MemoryUsage: 6000,
		MemoryMax:   8192,
		MemoryCache: 1,
		MemorySwap:  512,
		CPUTotal:    7000,
		CPUUser:     1000,
		CPUSystem:   6000,

		ThrottledPeriods: 3,
		ThrottledTime:    5000,
		PIDs:             2,
	}
	if s := g.Stats(); s != want {
		t.Errorf("got the stats %+v, want %+v", s, want)
	}
	if n := g.OOMKills(); n != 3 {
		t.Errorf("got %d kills, want 3", n)
	}
}

// The zero Group accepts every call.
func TestGroup_WithoutAHierarchyIsEmpty(t *testing.T) {
	g := &Group{}
	e, err := g.Entry()
	if err != nil {
		t.Fatal(err)
	}
	_, unified := e.FD()
	err = errors.Join(e.MoveThread(), e.Close(), g.Kill(t.Context()), g.Remove())
	if err != nil {
		t.Fatal(err)
	}
	if unified || !g.Empty() || g.Stats() != (Stats{}) || g.OOMKills() != 0 {
		t.Fatalf("the zero group %+v is not empty", g)
	}
	if err := (&Machine{}).Probe("berth"); err == nil {
		t.Fatal("Probe accepts a machine without cgroups")
	}
}

func TestNew_RejectsAMachineWithoutHierarchies(t *testing.T) {
	m := &Machine{Missing: map[string]string{Memory: "the mount table is unreadable"}}
	g, err := m.New("berth", "task", Limits{MemoryBytes: 1 << 20})
	if err == nil || !strings.Contains(err.Error(), "the mount table is unreadable") {
		t.Fatalf("made the group %+v, %v", g, err)
	}
}

// detectWritable skips the test if the machine itself has no groups.
func detectWritable(t *testing.T) *Machine {
	t.Helper()
	m := Detect()
	skipUnlessWritable(t, m)
	return m
}

// skipUnlessWritable skips the test if a machine has no groups. Any other error of making a group is a fault.
func skipUnlessWritable(t *testing.T, m *Machine) {
	t.Helper()
	err := m.Probe("berth")
	switch {
	case err == nil:
	case os.Geteuid() != 0:
		kit.SkipLacking(t, "root to make control groups")
	case m.V2 == "" && len(m.V1) == 0, errors.Is(err, unix.EROFS):
		kit.SkipLacking(t, "no hierarchy of control groups can be written on this machine: "+err.Error())
	default:
		t.Fatal(err)
	}
}

// A process starts in a real group, is found there, and killed. Then the group is removed.
func TestRealGroup_HoldsAProcess(t *testing.T) {
	m := detectWritable(t)
	name := fmt.Sprintf("test-%d", os.Getpid())
	g, err := m.New("berth", name, Limits{CPUShares: 200, MemoryBytes: 32 << 20, MemoryReserve: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Kill(ctx); err != nil {
			t.Error(err)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		if err := g.Remove(); err != nil { // idempotent
			t.Error(err)
		}
	})
	cmd := exec.Command("sh", "-c", "sleep 1000 & sleep 1000 & echo up; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	startInGroup(t, cmd, g)
	t.Cleanup(func() { _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	pids, err := g.PIDs()
	if err != nil || len(pids) != 3 || !slices.Contains(pids, cmd.Process.Pid) {
		t.Fatalf("the group has the processes %v, %v, want 3 with %d", pids, err, cmd.Process.Pid)
	}
	if s := g.Stats(); s.PIDs != 3 {
		t.Errorf("got the stats %+v, want 3 processes", s)
	}
	if err := g.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	if pids, err := g.PIDs(); err != nil || len(pids) != 0 {
		t.Fatalf("the group has the processes %v, %v, want none", pids, err)
	}
	if _, err := m.New("berth", name, Limits{}); err != nil { // as after a crash between kill and removal
		t.Fatal(err)
	}
	again := exec.Command("sh", "-c", "(true)")
	startInGroup(t, again, g)
	if err := again.Wait(); err != nil {
		t.Fatal(err)
	}
}

// realGroup makes a group that is killed and removed when the test is over.
func realGroup(t *testing.T, limits Limits) *Group {
	t.Helper()
	return makeRealGroup(t, detectWritable(t), limits)
}

func makeRealGroup(t *testing.T, m *Machine, limits Limits) *Group {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "-")
	g, err := m.New("berth", fmt.Sprintf("%s-%d", name, os.Getpid()), limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(g.Kill(ctx), g.Remove()); err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestRealGroup_HasItsLimits(t *testing.T) {
	g := realGroup(t, Limits{
		CPUShares:     1024,
		CPUCores:      2,
		MemoryBytes:   32 << 20,
		MemoryReserve: 16 << 20,
		PIDs:          30,
	})
	v1 := map[string]string{
		"cpu.shares":            "1024",
		"cpu.cfs_quota_us":      "200000",
		"memory.limit_in_bytes": "33554432",
		"pids.max":              "30",
	}
	v2 := map[string]string{
		"cpu.weight": "39",
		"cpu.max":    "200000 100000",
		"memory.max": "33554432",
		"memory.low": "16777216",
		"pids.max":   "30",
	}
	for _, c := range []string{CPU, Memory, PIDs} {
		dir, files := g.V1[c], v1
		if dir == "" {
			dir, files = g.V2, v2
		}
		seen := 0
		for file, want := range files {
			if !strings.HasPrefix(file, c+".") {
				continue
			}
			seen++
			b, err := os.ReadFile(filepath.Join(dir, file))
			if got := strings.TrimSpace(string(b)); err != nil || got != want {
				t.Errorf("%s/%s: got %q, %v, want %s", dir, file, got, err, want)
			}
		}
		if seen == 0 {
			t.Errorf("the test has no limit of %s", c)
		}
	}
}

// Processes that fork faster than single kills end, too.
func TestRealGroup_KillsAGroupThatForks(t *testing.T) {
	g := realGroup(t, Limits{PIDs: 40})
	if g.V1[PIDs] == "" && !hasController(g.V2, PIDs) {
		kit.SkipLacking(t, "no pids controller bounds the processes of this test")
	}
	cmd := exec.Command("sh", "-c", `
		echo up; for i in 1 2 3 4; do (while :; do sleep 0.001 & done) 2>/dev/null & done; wait`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	startInGroup(t, cmd, g)
	t.Cleanup(func() { _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := g.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if pids, err := g.PIDs(); err != nil || len(pids) != 0 {
		t.Fatalf("the group has the processes %v, %v, want none", pids, err)
	}
}

// A task with rights on the hierarchy may make groups below its own group.
func TestRealGroup_EndsWithTheGroupsBelowIt(t *testing.T) {
	g := realGroup(t, Limits{})
	for _, dir := range g.Dirs() {
		if err := os.MkdirAll(dir+"/a/b", 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // if the test fails
			_ = os.Remove(dir + "/a/b")
			_ = os.Remove(dir + "/a")
		})
	}
	below := &Group{V1: map[string]string{}}
	for c, dir := range g.V1 {
		below.V1[c] = dir + "/a/b"
	}
	if g.V2 != "" {
		below.V2 = g.V2 + "/a/b"
	}
	cmd := exec.Command("sleep", "1000")
	startInGroup(t, cmd, below)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if pids, err := g.PIDs(); err != nil || len(pids) != 1 {
		t.Errorf("the group has the processes %v, %v, want 1", pids, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(g.Kill(ctx), g.Remove()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range g.Dirs() {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the directory %s is left: %v", dir, err)
		}
	}
}

func startInGroup(t *testing.T, cmd *exec.Cmd, g *Group) {
	t.Helper()
	entry, err := g.Entry()
	if err != nil {
		t.Fatal(err)
	}
	defer entry.Close()
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	cmd.SysProcAttr.CgroupFD, cmd.SysProcAttr.UseCgroupFD = entry.FD()
	OnOwnThread(func() {
		err = entry.MoveThread()
		if err == nil {
			err = cmd.Start()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The thread that dropped privileges for the program must end afterwards, and never be the main one.
func TestOnOwnThread_EndsItsThread(t *testing.T) {
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			var tid int
			OnOwnThread(func() { tid = unix.Gettid() })
			if tid == 0 || tid == os.Getpid() {
				t.Errorf("the function ran on thread %d of process %d", tid, os.Getpid())
			}
			for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
				if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); os.IsNotExist(err) {
					return
				}
				if time.Now().After(end) {
					t.Errorf("thread %d does not end", tid)
					return
				}
			}
		})
	}
	all.Wait()
}
