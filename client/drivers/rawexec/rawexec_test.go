package rawexec_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	"berth/client/drivers/rawexec"
	"berth/structs"
	"berth/test/kit"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each supervisor takes a second to end
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const patience = 2 * time.Minute

type fixture struct {
	t   *testing.T
	d   *rawexec.Driver
	dir string
	ctx context.Context
}

// newFixture makes a driver; without cgroups its tasks have none.
func newFixture(t *testing.T, cgroups bool) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cfg := rawexec.Config{Enabled: true}
	if !cgroups {
		cfg.CgroupParent = "no\nsuch/" + strings.Repeat("x", 300)
	}
	d := rawexec.New(cfg, executor.Config{
		Dir:     filepath.Join(dir, "ex"),
		Command: []string{os.Args[0], "executor"},
	})
	return &fixture{t, d, dir, ctx}
}

func (r *fixture) task(script string) *driver.TaskConfig {
	r.t.Helper()
	cfg := &driver.TaskConfig{
		ID:   "alloc/t",
		Task: "t",
		Config: map[string]any{
			"command": "sh",
			"args":    []any{"-c", script},
		},
		Dirs: driver.Dirs{
			Task:        r.dir + "/t",
			AllocShared: r.dir,
			Local:       r.dir + "/t/local",
			Secrets:     r.dir + "/t/secrets",
			Logs:        r.dir,
		},
	}
	err := errors.Join(
		os.MkdirAll(cfg.Dirs.Local, 0o755),
		os.MkdirAll(cfg.Dirs.Secrets, 0o700))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.d.Destroy(ctx, cfg.ID, nil); err != nil {
			r.t.Error(err)
		}
	})
	return cfg
}

func (r *fixture) start(cfg *driver.TaskConfig) *driver.Handle {
	r.t.Helper()
	h, err := r.d.Start(r.ctx, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

func (r *fixture) wait(cfg *driver.TaskConfig) driver.ExitResult {
	r.t.Helper()
	res, err := r.d.Wait(r.ctx, cfg.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return *res
}

func (r *fixture) output() string {
	b, _ := os.ReadFile(r.dir + "/t.stdout.0") // the start of the task makes it
	return string(b)
}

// awaitNumbers waits until the task has written n numbers, as of processes, and returns them.
func (r *fixture) awaitNumbers(n int) []int {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		var pids []int
		for _, f := range strings.Fields(r.output()) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				r.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		if len(pids) == n && strings.HasSuffix(r.output(), "\n") {
			return pids
		}
		if time.Now().After(end) {
			r.t.Fatalf("got the output %q, want %d numbers", r.output(), n)
		}
	}
}

func hasEnded(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err != nil || len(b) == 0
}

func withAndWithoutCgroups(t *testing.T, fn func(r *fixture)) {
	for _, cgroups := range []bool{true, false} {
		t.Run(fmt.Sprintf("cgroups=%v", cgroups), func(t *testing.T) { fn(newFixture(t, cgroups)) })
	}
}

func TestWait_ReportsTheEnd(t *testing.T) {
	withAndWithoutCgroups(t, func(r *fixture) {
		for script, want := range map[string]driver.ExitResult{
			`exit 0`:        {},
			`exit 77`:       {ExitCode: 77},
			`kill -SEGV $$`: {Signal: 11},
		} {
			cfg := r.task(script)
			r.start(cfg)
			if res := r.wait(cfg); res != want {
				r.t.Errorf("%s: got the end %+v, want %+v", script, res, want)
			}
		}
	})
}

const threeChildren = `
	sh -c 'echo $$; exec sleep 1000' &
	setsid sh -c 'echo $$; exec sleep 1000' &
	(setsid sh -c 'echo $$; exec sleep 1000' &)
	`

// The remaining processes of a task are killed when its first process ends, also if they have left its
// session.
func TestDestroy_LeavesNothing(t *testing.T) {
	withAndWithoutCgroups(t, func(r *fixture) {
		cfg := r.task(threeChildren + `while [ $(wc -l < ` + r.dir + `/t.stdout.0) -lt 3 ]; do sleep 0.01; done; exit 5`)
		r.start(cfg)
		if res := r.wait(cfg); res.ExitCode != 5 {
			r.t.Fatalf("got the end %+v", res)
		}
		for _, pid := range r.awaitNumbers(3) {
			if !hasEnded(pid) {
				r.t.Errorf("process %d still runs", pid)
			}
		}
	})
}

func TestStop_KillsAllProcesses(t *testing.T) {
	withAndWithoutCgroups(t, func(r *fixture) {
		cfg := r.task(`trap '' INT;` + threeChildren + `while :; do sleep 1; done`)
		r.start(cfg)
		pids := r.awaitNumbers(3)
		s, err := r.d.Stats(r.ctx, cfg.ID)
		if err != nil || s.PIDs < 3 || s.MemoryRSS == 0 {
			r.t.Errorf("got the stats %+v, %v, want at least 3 processes", s, err)
		}
		if err := r.d.Stop(r.ctx, cfg.ID, "", 20*time.Millisecond); err != nil {
			r.t.Fatal(err)
		}
		if res := r.wait(cfg); res.Signal != 9 {
			r.t.Errorf("got the end %+v", res)
		}
		for _, pid := range pids {
			if !hasEnded(pid) {
				r.t.Errorf("process %d still runs", pid)
			}
		}
	})
}

// The supervisor is killed: its processes are found and killed. Without cgroups they are the task's session.
// A process that has left it cannot be distinguished from others.
func TestRecover_AfterAKilledSupervisor(t *testing.T) {
	withAndWithoutCgroups(t, func(r *fixture) {
		cfg := r.task(`sh -c 'echo $$; exec sleep 1000' & echo $$; exec sleep 1000`)
		h := r.start(cfg)
		pids := r.awaitNumbers(2)
		if err := unix.Kill(h.PID, unix.SIGKILL); err != nil {
			r.t.Fatal(err)
		}
		if res := r.wait(cfg); res.Err == "" {
			r.t.Errorf("got the end %+v", res)
		}
		for _, pid := range pids {
			if !hasEnded(pid) {
				r.t.Errorf("process %d still runs", pid)
			}
		}
	})
}

func TestTask_SeesTheHostsPaths(t *testing.T) {
	r := newFixture(t, true)
	cfg := r.task(`pwd; echo $BERTH_TASK_DIR $NOMAD_ALLOC_DIR; test -e ` + os.Args[0] +
		` && echo host; echo $A; command -v $(basename ` + os.Args[0] +
		`); ulimit -n; ls /proc/self/fd | tr '\n' ' '`)
	cfg.Env = map[string]string{"A": "b", "NOMAD_ALLOC_DIR": "/alloc"}
	r.start(cfg)
	r.wait(cfg)
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(r.output(), "\n")
	want := []string{cfg.Dirs.Task, cfg.Dirs.Local + " " + cfg.Dirs.AllocShared, "host", "b", os.Args[0]}
	for i, w := range want {
		if lines[i] != w {
			t.Errorf("line %d is %q, want %q", i, lines[i], w)
		}
	}
	if last := lines[len(lines)-1]; last != "0 1 2 3 " {
		t.Errorf("open files: %s", last)
	}
}

// The devices of the host are at their paths already, also by a link.
func TestStart_TakesDevicesOfTheHost(t *testing.T) {
	r := newFixture(t, true)
	link := r.dir + "/null"
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	cfg := r.task(`true`)
	cfg.Mounts = []driver.Mount{{HostPath: "/dev/null", TaskPath: link, Device: true, Permissions: "rw"}}
	r.start(cfg)
	if res := r.wait(cfg); !res.Successful() {
		t.Errorf("got the end %+v", res)
	}
	cfg.Mounts[0].TaskPath = "/dev/zero"
	if _, err := r.d.Start(r.ctx, cfg); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a device at the path of another: got %v, want an invalid task", err)
	}
}

func TestStart_RejectsMountsAndUnknownCommands(t *testing.T) {
	r := newFixture(t, true)
	cfg := r.task(`true`)
	cfg.Mounts = []driver.Mount{{HostPath: "/tmp", TaskPath: "/m"}}
	_, err := r.d.Start(r.ctx, cfg)
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "/m") {
		t.Errorf("a mount: got %v, want an invalid task", err)
	}
	cfg = r.task(`true`)
	cfg.Config["command"] = "no-such"
	_, err = r.d.Start(r.ctx, cfg)
	want := `raw_exec: command "no-such" not found on this machine (PATH=`
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("no such command: got %v, want %s", err, want)
	}
}

func TestDriver_IsDisabledByDefault(t *testing.T) {
	d := rawexec.New(rawexec.DefaultConfig(), executor.Config{
		Dir:     t.TempDir(),
		Command: []string{os.Args[0], "executor"},
	})
	info := d.Fingerprint(context.Background())
	if info.Detected || info.Healthy ||
		!strings.Contains(info.HealthDescription, "raw_exec { enabled = true }") {
		t.Errorf("got the fingerprint %+v", info)
	}
	cfg := &driver.TaskConfig{ID: "x", Config: map[string]any{"command": "true"}}
	if _, err := d.Start(context.Background(), cfg); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("a start: got %v, want a precondition", err)
	}
}

func TestFingerprint_NamesMissingParts(t *testing.T) {
	info := newFixture(t, false).d.Fingerprint(context.Background())
	if !info.Healthy || !strings.Contains(info.HealthDescription, "resource limits are not enforced") {
		t.Errorf("got the fingerprint %+v", info)
	}
}

// The user of a task owns its directories and reaches them; the other users of the machine do not.
func TestUser_OwnsTheTasksDirectoriesAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root to run tasks as other users")
	}
	r := newFixture(t, false)
	if err := os.Chmod(r.dir, 0o711); err != nil {
		t.Fatal(err)
	}
	stranger := func(cfg *driver.TaskConfig) error {
		cmd := exec.Command(cfg.Dirs.Local + "/left-behind")
		stranger := &syscall.Credential{Uid: 65534, Gid: 65534}
		cmd.SysProcAttr = &unix.SysProcAttr{Credential: stranger}
		return cmd.Run()
	}
	cfg := r.task(`
		cp /bin/true local/left-behind && chmod 4755 local/left-behind && touch secrets/x && echo made`)
	cfg.User = "daemon"
	r.start(cfg)
	res := r.wait(cfg)
	if r.output() != "made\n" {
		t.Fatalf("got the end %+v and the output %q", res, r.output())
	}
	if err := stranger(cfg); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another user ran a file of the task: %v", err)
	}
	if err := errors.Join(os.Chmod(r.dir, 0o711), os.Chmod(cfg.Dirs.Task, 0o711)); err != nil {
		t.Fatal(err)
	}
	if err := stranger(cfg); err != nil {
		t.Errorf("the program does not run in an open directory, so the test has no result: %v", err)
	}
}

// A directory has one group, so users of other groups need it open to all.
func TestUser_SharesTheAllocationWithOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root to run tasks as other users")
	}
	r := newFixture(t, false)
	for i, step := range []struct {
		user string
		want os.FileMode
	}{
		{"daemon", 0o710},
		{"daemon", 0o710},
		{"nobody", 0o711},
		{"daemon", 0o711},
	} {
		cfg := r.task("true")
		cfg.ID = fmt.Sprint("alloc/", i)
		cfg.Dirs.Task = fmt.Sprint(r.dir, "/", i)
		cfg.Dirs.Local = cfg.Dirs.Task + "/local"
		cfg.Dirs.Secrets = cfg.Dirs.Task + "/secrets"
		cfg.User = step.user
		err := errors.Join(
			os.MkdirAll(cfg.Dirs.Local, 0o700),
			os.Mkdir(cfg.Dirs.Secrets, 0o700))
		if err != nil {
			t.Fatal(err)
		}
		r.start(cfg)
		if res := r.wait(cfg); !res.Successful() {
			t.Errorf("%d: got the end %+v", i, res)
		}
		if err := r.d.Destroy(r.ctx, cfg.ID, nil); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(r.dir); err != nil || info.Mode().Perm() != step.want {
			t.Errorf("%d: got the mode %v of the allocation's directory, %v, want %v", i, info.Mode(), err, step.want)
		}
	}
}

// A task may replace its directories by links. The driver must not change the owner of their targets.
func TestUser_IsNotGivenTheTargetOfALink(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root to run tasks as other users")
	}
	r := newFixture(t, false)
	cfg := r.task(`echo never`)
	target := t.TempDir()
	if err := errors.Join(os.Remove(cfg.Dirs.Local), os.Symlink(target, cfg.Dirs.Local)); err != nil {
		t.Fatal(err)
	}
	cfg.User = "daemon"
	if _, err := r.d.Start(r.ctx, cfg); err == nil {
		t.Error("the task was started")
	}
	var st unix.Stat_t
	if err := unix.Stat(target, &st); err != nil || st.Uid != 0 {
		t.Errorf("the link's target belongs to user %d, %v", st.Uid, err)
	}
}

func TestPIDsLimit_BoundsATask(t *testing.T) {
	r := newFixture(t, true)
	cfg := r.task(`
		cat /sys/fs/cgroup/pids$(sed -n s/.*:pids://p /proc/self/cgroup)/pids.max 2>/dev/null ||
		cat /sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/pids.max`)
	if r.d.Fingerprint(r.ctx).Attributes["driver.raw_exec.cgroups"] == "none" {
		kit.SkipLacking(t, "no cgroup can be made on this machine")
	}
	r.start(cfg)
	res := r.wait(cfg)
	if r.output() != "4096\n" {
		t.Fatalf("got the end %+v and the output %q", res, r.output())
	}
}

func TestConfig_NamesEveryFault(t *testing.T) {
	bad := executor.CgroupConfig{CgroupParent: "/x", PIDsLimit: 1}
	err := rawexec.Config{CgroupConfig: bad}.Validate()
	for _, want := range []string{"raw_exec.cgroup_parent", "raw_exec.pids_limit: 1"} {
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	unlimited := executor.CgroupConfig{PIDsLimit: -1}
	err = rawexec.Config{CgroupConfig: unlimited}.Validate()
	if err != nil {
		t.Error(err)
	}
}
