package exec_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/exec"
)

// attempt is a system call with which a task leaves its sandbox, and how the sandbox answers it.
type attempt struct {
	name   string
	number uintptr
	args   [3]uintptr
	want   unix.Errno
}

// Without the filter a root user without capabilities can make the first five.
var attempts = []attempt{
	{"unshare of a namespace", unix.SYS_UNSHARE, [3]uintptr{unix.CLONE_NEWUSER | unix.CLONE_NEWNS}, unix.EPERM},
	{"clone3", unix.SYS_CLONE3, [3]uintptr{}, unix.ENOSYS},
	{"keyctl", unix.SYS_KEYCTL, [3]uintptr{0, ^uintptr(0)}, unix.EPERM},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [3]uintptr{}, unix.EPERM},
	{"userfaultfd", unix.SYS_USERFAULTFD, [3]uintptr{1}, unix.EPERM},
	{"mount", unix.SYS_MOUNT, [3]uintptr{}, unix.EPERM},
	{"umount2", unix.SYS_UMOUNT2, [3]uintptr{}, unix.EPERM},
	{"pivot_root", unix.SYS_PIVOT_ROOT, [3]uintptr{}, unix.EPERM},
	{"setns", unix.SYS_SETNS, [3]uintptr{}, unix.EPERM},
	{"bpf", unix.SYS_BPF, [3]uintptr{}, unix.EPERM},
	{"a call newer than the list", 5000, [3]uintptr{}, unix.ENOSYS},
}

// escapeMain makes the calls in a task and prints the result of each. It also prints whether the mount of its
// own executable, the agent's, is read-only: a running file returns ETXTBSY in any case.
func escapeMain() {
	var fs unix.Statfs_t
	err := unix.Statfs("/proc/self/exe", &fs)
	fmt.Printf("the executable is read-only: %v %v\n", fs.Flags&unix.ST_RDONLY != 0, err)
	for _, a := range attempts {
		_, _, errno := unix.RawSyscall(a.number, a.args[0], a.args[1], a.args[2])
		fmt.Printf("%s: %v\n", a.name, errno)
	}
	os.Exit(0)
}

func TestSeccomp_RejectsTheCallsThatLeaveASandbox(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `grep -w Seccomp: /proc/self/status; exec /run/berth/bin/berth escape`)
	cfg.Env = map[string]string{"GODEBUG": os.Getenv("GODEBUG")} // test/guest sets it
	cfg.Resources.MemoryMB = 512
	want := "Seccomp:\t2\nthe executable is read-only: true <nil>\n"
	for _, a := range attempts {
		want += fmt.Sprintf("%s: %v\n", a.name, a.want)
	}
	if res, out := r.run(cfg); out != want {
		t.Fatalf("got the end %+v and the output\n%s\nwant\n%s", res, out, want)
	}
}

// Root in a task makes a user namespace, in which it has all capabilities, and mounts the hierarchies again.
// It changes only its own processes and limits, in case it succeeds.
const leaveCgroups = `
	unshare -UrmC sh -c '
		for c in memory cpu pids; do
			mkdir -p /tmp/$c; mount -t cgroup -o $c none /tmp/$c || continue
			own=/tmp/$c/$(sed -n s/.*:$c:.*berth/berth/p /proc/self/cgroup)
			test -e $own/memory.limit_in_bytes && echo -1 > $own/memory.limit_in_bytes
			echo $$ > /tmp/$c/cgroup.procs && echo left $c
		done
		mkdir /tmp/v2; mount -t cgroup2 none /tmp/v2 && echo $$ > /tmp/v2/cgroup.procs && echo left v2'
	for f in $(find /sys/fs/cgroup -name cgroup.procs); do
		{ echo $$ > $f && echo entered $f; } 2>/dev/null
	done
	mount -o remount,rw /sys 2>/dev/null && echo remounted; mount -o remount,rw /sys/fs/cgroup && echo remounted
	echo tried; exec sleep 1000`

func TestLimits_HoldAgainstRootInATask(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", leaveCgroups)
	r.start(cfg)
	r.awaitOutput(cfg, "tried")
	if out := r.readLog(cfg, "stdout"); out != "tried\n" {
		t.Errorf("got the output %q, want tried", out)
	}
	g := cgroups.Detect().Path("berth", filepath.Base(r.DirOf(cfg.ID)))
	for _, dir := range append(slices.Sorted(maps.Values(g.V1)), g.V2) {
		if dir == "" {
			continue
		}
		b, err := os.ReadFile(dir + "/cgroup.procs")
		if err != nil || len(strings.Fields(string(b))) != 1 {
			t.Errorf("the cgroup %s has the processes %q, %v, want 1", dir, b, err)
		}
	}
	want := strconv.Itoa(64 << 20)
	got := readLimit(g, cgroups.Memory, "memory.limit_in_bytes", "memory.max")
	if got != want {
		t.Errorf("got the memory limit %s, want %s", got, want)
	}
}

// readLimit reads a control file in the hierarchy of the controller.
func readLimit(g *cgroups.Group, controller, v1, v2 string) string {
	path := filepath.Join(g.V2, v2)
	if dir := g.V1[controller]; dir != "" {
		path = filepath.Join(dir, v1)
	}
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// A task may name its own pid 1, the agent's executable, as its command: it must not be able to change it.
func TestSandbox_ProtectsTheAgentsExecutable(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", "")
	cfg.Config = map[string]any{"command": "/proc/self/exe", "args": []any{"escape"}}
	cfg.Resources.MemoryMB = 512
	if res, out := r.run(cfg); !strings.HasPrefix(out, "the executable is read-only: true <nil>\n") {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
}

func TestSeccomp_UnconfinedByTheOperator(t *testing.T) {
	r := newFixture(t).withConfig(func(c *exec.Config) { c.Seccomp = exec.SeccompUnconfined })
	cfg := r.task("t", `grep -w Seccomp: /proc/self/status; unshare -U echo unshared`)
	if res, out := r.run(cfg); out != "Seccomp:\t0\nunshared\n" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
}

// A CSI plugin is privileged: its drivers mount, and some load keys and ciphers into the kernel.
func TestSeccomp_LeavesPrivilegedTasksAlone(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `grep -w Seccomp: /proc/self/status; unshare -m mount -t tmpfs x /mnt && echo mounted`)
	cfg.Privileged = true
	if res, out := r.run(cfg); out != "Seccomp:\t0\nmounted\n" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
}

// A bounded fork bomb: it makes at most 60 processes, and ends at the first rejection.
const forkBomb = `
	(i=0; while [ $i -lt 60 ]; do i=$((i+1)); sleep 1000 & done) 2>/local/err; exec sleep 1000`

func TestPIDsLimit_StopsAForkBomb(t *testing.T) {
	r := newFixture(t).withConfig(func(c *exec.Config) { c.PIDsLimit = 20 })
	cfg := r.task("t", forkBomb)
	r.start(cfg)
	r.waitUntil("a fork is rejected", func() bool {
		b, _ := os.ReadFile(cfg.Dirs.Local + "/err")
		return contains(string(b), "Cannot fork") ||
			contains(string(b), "Resource temporarily unavailable")
	})
	g := cgroups.Detect().Path("berth", filepath.Base(r.DirOf(cfg.ID)))
	if got := readLimit(g, cgroups.PIDs, "pids.max", "pids.max"); got != "20" {
		t.Errorf("got pids.max %q, want 20", got)
	}
	if s, err := r.Stats(r.ctx(), cfg.ID); err != nil || s.PIDs > 20 {
		t.Errorf("got the stats %+v, %v, want at most 20 processes", s, err)
	}
	other := r.task("other", `echo unaffected`)
	if _, out := r.run(other); out != "unaffected\n" {
		t.Errorf("another task: got the output %q", out)
	}
}

func TestPIDsLimit_Settings(t *testing.T) {
	for set, want := range map[int]string{
		0:   "4096",
		100: "100",
		-1:  "max",
	} {
		t.Run(want, func(t *testing.T) {
			r := newFixture(t).withConfig(func(c *exec.Config) { c.PIDsLimit = set })
			cfg := r.task("t", `echo up; exec sleep 1000`)
			r.start(cfg)
			g := cgroups.Detect().Path("berth", filepath.Base(r.DirOf(cfg.ID)))
			if got := readLimit(g, cgroups.PIDs, "pids.max", "pids.max"); got != want {
				t.Errorf("got pids.max %q, want %s", got, want)
			}
		})
	}
}
