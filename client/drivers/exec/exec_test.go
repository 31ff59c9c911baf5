package exec_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/executor"
	"berth/structs"
	"berth/test/kit"
)

// The test binary is also the agent's executable: as `<test binary> executor <dir>` it is a supervisor,
// as `<test binary> agent` an agent that starts a task and is then killed, and as `<test binary> escape` a
// task that tries to leave its sandbox.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "old-executor" {
		oldExecutorMain(os.Args[2])
	}
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		agentMain()
	}
	if len(os.Args) > 2 && os.Args[1] == "fingerprint" {
		fingerprintMain(os.Args[2])
	}
	if len(os.Args) > 1 && os.Args[1] == "escape" {
		escapeMain()
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each supervisor takes a second to end
	// The test reaps the processes of a killed supervisor, because the first process of the machine may not.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(kit.ExitPlain))
}

// patience bounds each wait of a test.
const patience = 2 * time.Minute

// fixture is a driver with a scratch directory.
type fixture struct {
	*exec.Driver
	t   *testing.T
	dir string
}

func executorConfig(dir string) executor.Config {
	return executor.Config{
		Dir:     filepath.Join(dir, "ex"),
		Command: []string{kit.PlainProgram(), "executor"},
	}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: the driver makes control groups and namespaces")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	d := exec.New(exec.DefaultConfig(), executorConfig(dir))
	return &fixture{t: t, dir: dir, Driver: d}
}

// withConfig returns a driver with other settings.
func (r *fixture) withConfig(edit func(*exec.Config)) *fixture {
	cfg := exec.DefaultConfig()
	edit(&cfg)
	d := exec.New(cfg, executorConfig(r.dir))
	return &fixture{t: r.t, dir: r.dir, Driver: d}
}

// nextAgent returns the driver of another agent with the same data directory.
func (r *fixture) nextAgent() *fixture {
	d := exec.New(exec.DefaultConfig(), executorConfig(r.dir))
	return &fixture{t: r.t, dir: r.dir, Driver: d}
}

// task returns the config of a task that runs a shell script. The end of the test destroys the task.
func (r *fixture) task(name, script string) *driver.TaskConfig {
	r.t.Helper()
	base := filepath.Join(r.dir, name)
	cfg := &driver.TaskConfig{
		ID:   "alloc/" + name,
		Task: name,
		Config: map[string]any{
			"command": "sh",
			"args":    []any{"-c", script},
		},
		Dirs: driver.Dirs{
			Task:        base,
			AllocShared: filepath.Join(r.dir, "shared"),
			Local:       base + "/local",
			Secrets:     base + "/secrets",
			Logs:        filepath.Join(r.dir, "logs"),
		},
		Resources: structs.Resources{CPU: 100, MemoryMB: 64},
	}
	dirs := []string{cfg.Dirs.AllocShared, cfg.Dirs.Local, cfg.Dirs.Secrets, cfg.Dirs.Logs}
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	r.t.Cleanup(func() { r.destroy(cfg) })
	return cfg
}

func (r *fixture) destroy(cfg *driver.TaskConfig) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Destroy(ctx, cfg.ID, nil); err != nil {
		r.t.Error(err)
	}
	r.checkClean(cfg)
}

// checkClean checks that only the logs and directories of a task remain.
func (r *fixture) checkClean(cfg *driver.TaskConfig) {
	r.t.Helper()
	dir := r.DirOf(cfg.ID)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		r.t.Errorf("the task's directory is still there (%v)", err)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/berth/", "/sys/fs/cgroup/berth/"} {
		left, err := filepath.Glob(pattern + filepath.Base(dir))
		if err != nil || len(left) > 0 {
			r.t.Errorf("cgroups are left: %v (%v)", left, err)
		}
	}
}

func (r *fixture) start(cfg *driver.TaskConfig) *driver.Handle {
	r.t.Helper()
	h, err := r.Start(r.ctx(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

func (r *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *fixture) wait(cfg *driver.TaskConfig) driver.ExitResult {
	r.t.Helper()
	res, err := r.Wait(r.ctx(), cfg.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return *res
}

// run runs a task to its end and returns its output, stdout before stderr.
func (r *fixture) run(cfg *driver.TaskConfig) (driver.ExitResult, string) {
	r.t.Helper()
	r.start(cfg)
	res := r.wait(cfg)
	return res, r.readLog(cfg, "stdout") + r.readLog(cfg, "stderr")
}

func (r *fixture) readLog(cfg *driver.TaskConfig, kind string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(cfg.Dirs.Logs, cfg.Task+"."+kind+".0"))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(b)
}

// waitUntil waits for an effect of other processes.
func (r *fixture) waitUntil(condition string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("the condition does not hold in time: %s", condition)
		}
	}
}

// awaitOutput waits until the stdout of the task has the text.
func (r *fixture) awaitOutput(cfg *driver.TaskConfig, want string) {
	r.t.Helper()
	r.waitUntil("the task says "+want, func() bool { return contains(r.readLog(cfg, "stdout"), want) })
}
