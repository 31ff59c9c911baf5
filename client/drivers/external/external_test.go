package external

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/client/driver"
	"berth/client/drivers/executor"
	"berth/client/plugincatalog"
	"berth/client/store"
	"berth/structs"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// fixture is a node with the dialect's own raw_exec driver as an external plugin, which nobody here wrote.
type fixture struct {
	t       *testing.T
	catalog *plugincatalog.Catalog
	records *store.DB
	dir     string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	program := os.Getenv("BERTH_TEST_DRIVER_PLUGIN")
	if program == "" {
		t.Skip("BERTH_TEST_DRIVER_PLUGIN names no driver plugin")
	}
	dir, err := os.MkdirTemp("", "bx")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plugins", "s", "tasks", "store"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(program, filepath.Join(dir, "plugins", "rawexec")); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: dir}
	f.catalog, err = plugincatalog.Open(t.Context(), plugincatalog.Config{
		Dir:     filepath.Join(dir, "plugins"),
		Sockets: filepath.Join(dir, "s"),
		Plugins: []*plugincatalog.PluginConfig{{
			Name:   "rawexec",
			Config: map[string]any{"enabled": true, "no_cgroups": true},
		}},
	}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	f.records, err = store.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		none := func(string) bool { return false }
		err := plugincatalog.KillOthers(context.Background(), f.records, none)
		if err != nil {
			t.Error(err)
		}
		_ = f.records.Close()
		_ = os.RemoveAll(dir)
	})
	return f
}

// agent is one life of the agent.
type agent struct {
	*Driver
	stop func()
}

func (f *fixture) agent() *agent {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	d := New("raw_exec", Config{
		Catalog: f.catalog,
		Records: f.records,
		Node:    Node{ID: "n1", Name: "node"},
		Logs: NewLogs("raw_exec-logs", executor.Config{
			Dir:     filepath.Join(f.dir, "tasks"),
			Command: []string{self, "executor"},
		}),
		Events: func(driver.TaskEvent) {},
	}, hclog.NewNullLogger())
	ctx, cancel := context.WithCancel(context.Background())
	healthy := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Run(ctx, func(info *structs.DriverInfo) {
			if info.Healthy {
				select {
				case healthy <- struct{}{}:
				default:
				}
			} else {
				f.t.Logf("not healthy: %s", info.HealthDescription)
			}
		})
	}()
	a := &agent{Driver: d}
	a.stop = func() {
		cancel()
		<-done
	}
	f.t.Cleanup(a.stop)
	select {
	case <-healthy:
	case <-time.After(time.Minute):
		f.t.Fatal("the driver does not become healthy")
	}
	return a
}

// task is a configuration of a shell script.
func (f *fixture) task(id, script string) *driver.TaskConfig {
	f.t.Helper()
	root := filepath.Join(f.dir, "allocs", id)
	dirs := driver.Dirs{
		Task:        filepath.Join(root, "web"),
		AllocShared: filepath.Join(root, "alloc"),
		Local:       filepath.Join(root, "web", "local"),
		Secrets:     filepath.Join(root, "web", "secrets"),
		Logs:        filepath.Join(root, "alloc", "logs"),
	}
	for _, d := range []string{dirs.Local, dirs.Secrets, dirs.Logs} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			f.t.Fatal(err)
		}
	}
	return &driver.TaskConfig{
		ID:        id + "/web",
		Task:      "web",
		Config:    map[string]any{"command": "/bin/sh", "args": []any{"-c", script}},
		Env:       map[string]string{"GREETING": "hello"},
		Resources: structs.Resources{CPU: 100, MemoryMB: 64},
		Dirs:      dirs,
		LogConfig: structs.LogConfig{MaxFiles: 2, MaxFileSizeMB: 1},
	}
}

func (f *fixture) start(a *agent, cfg *driver.TaskConfig) *driver.Handle {
	f.t.Helper()
	h, err := a.Start(f.t.Context(), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

func (f *fixture) wait(a *agent, id string) *driver.ExitResult {
	f.t.Helper()
	result, err := a.Wait(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

func (f *fixture) destroy(a *agent, id string) {
	f.t.Helper()
	if err := a.Destroy(f.t.Context(), id); err != nil {
		f.t.Error(err)
	}
}

func TestDriver_RunsATask(t *testing.T) {
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", "echo $GREETING; echo oops >&2; exit 7")
	f.start(a, cfg)
	result := f.wait(a, cfg.ID)
	if result.ExitCode != 7 || result.Err != "" {
		t.Errorf("got %+v", result)
	}
	f.destroy(a, cfg.ID)
	for kind, want := range map[string]string{"stdout": "hello\n", "stderr": "oops\n"} {
		text, err := os.ReadFile(filepath.Join(cfg.Dirs.Logs, "web."+kind+".0"))
		if err != nil || string(text) != want {
			t.Errorf("%s has %q, %v, want %q", kind, text, err, want)
		}
	}
	if _, err := a.Wait(t.Context(), cfg.ID); !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("a destroyed task: %v", err)
	}
}

func TestDriver_StopsATask(t *testing.T) {
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", "trap 'exit 3' TERM; echo up; while :; do sleep 0.1; done")
	f.start(a, cfg)
	f.awaitOutput(cfg, "up\n")
	if err := a.Stop(t.Context(), cfg.ID, "SIGTERM", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if result := f.wait(a, cfg.ID); !stopped(result) {
		t.Errorf("got %+v", result)
	}
	f.destroy(a, cfg.ID)
}

// stopped reports whether the script was stopped. The driver closes the connection to its own helper at a
// stop, and may lose the exit code; then it says so.
func stopped(r *driver.ExitResult) bool {
	return r.ExitCode == 3 || strings.Contains(r.Err, "error waiting on process")
}

func (f *fixture) awaitOutput(cfg *driver.TaskConfig, want string) {
	f.t.Helper()
	path := filepath.Join(cfg.Dirs.Logs, "web.stdout.0")
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(path)
		if string(text) == want {
			return
		}
		if time.Now().After(limit) {
			f.t.Fatalf("the output is %q, want %q", text, want)
		}
	}
}

func TestDriver_ChecksTheConfigurationOfATask(t *testing.T) {
	f := newFixture(t)
	a := f.agent()
	err := a.Validate(map[string]any{"comand": "x"})
	for _, want := range []string{`"comand"`, `"command"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}

func TestDriver_TasksOutliveTheAgent(t *testing.T) {
	f := newFixture(t)
	first := f.agent()
	cfg := f.task("a1", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done")
	h := f.start(first, cfg)
	f.awaitOutput(cfg, "up\n")
	process := record(t, f).Process
	first.stop()
	second := f.agent()
	if again := record(t, f).Process; again != process {
		t.Errorf("process %v was started beside %v", again, process)
	}
	if err := second.Recover(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := second.Stop(t.Context(), cfg.ID, "SIGTERM", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if result := f.wait(second, cfg.ID); !stopped(result) {
		t.Errorf("got %+v", result)
	}
	f.destroy(second, cfg.ID)
	text, err := os.ReadFile(filepath.Join(cfg.Dirs.Logs, "web.stdout.0"))
	if err != nil || string(text) != "up\nbye\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestDriver_TasksOutliveThePlugin(t *testing.T) {
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", "while [ ! -e local/end ]; do sleep 0.1; done; exit 5")
	f.start(a, cfg)
	results := make(chan *driver.ExitResult, 1)
	go func() {
		result, _ := a.Wait(context.Background(), cfg.ID)
		results <- result
	}()
	old := record(t, f).Process
	if err := unix.Kill(old.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	before, _ := a.current()
	if _, err := a.await(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	select {
	case result := <-results:
		t.Fatalf("the task ended with its plugin: %+v", result)
	default:
	}
	if err := os.WriteFile(filepath.Join(cfg.Dirs.Local, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if result := <-results; result == nil || result.ExitCode != 5 {
		t.Errorf("got %+v", result)
	}
	f.destroy(a, cfg.ID)
}

func record(t *testing.T, f *fixture) plugincatalog.Reattach {
	t.Helper()
	all, err := store.NewTable[plugincatalog.Reattach]("plugin_processes").All(f.records, "")
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v, want one process", all, err)
	}
	return *all[0].Value
}
