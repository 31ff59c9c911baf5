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

	"berth/client/drivers/catalog"
	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/client/drivers/executor"
	"berth/client/store"
	"berth/internal/backoff"
	"berth/structs"
	"berth/test/kit"
)

func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each helper takes a second to end
	if drivertest.PluginMain() {
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	reopen = backoff.Backoff{Min: 100 * time.Millisecond, Max: 400 * time.Millisecond}
	waitRetry = backoff.Backoff{Min: 20 * time.Millisecond, Max: 100 * time.Millisecond}
	probeInterval = 100 * time.Millisecond
	reportTimeout = 100 * time.Millisecond
	reportPause = 20 * time.Millisecond
	goleak.VerifyTestMain(m, goleak.Cleanup(kit.ExitPlain))
}

// shorten shortens the bound of a call for a test in which one hangs. That test is not parallel, because all
// drivers share the bound. Its subtests may be.
func shorten(t *testing.T) {
	old := callTimeout
	callTimeout = 5 * time.Second // a busy machine keeps to it in other calls
	t.Cleanup(func() { callTimeout = old })
}

// fixture is a node with one external driver.
type fixture struct {
	t       *testing.T
	name    string // of the driver
	config  func(script string) map[string]any
	catalog *catalog.Catalog
	records *store.DB
	dir     string
	tasks   []string  // the IDs of all tasks
	users   UserRange // that the agent allots
	covers  func() ([]driver.Mount, error)
	plugin  *drivertest.Plugin // nil for a driver of the peer
}

// newPeer is a node with the dialect's own raw_exec driver, which nobody here wrote.
func newPeer(t *testing.T) *fixture {
	t.Helper()
	program := drivertest.PeerPlugin(t, "peer_raw_exec")
	f := newNode(t)
	f.name = "peer_raw_exec"
	f.config = func(script string) map[string]any {
		return map[string]any{"command": "/bin/sh", "args": []any{"-c", script}}
	}
	err := os.Symlink(program, filepath.Join(f.dir, "plugins", f.name))
	if err != nil {
		t.Fatal(err)
	}
	f.open(map[string]any{"enabled": true, "no_cgroups": true})
	return f
}

// newFixture is a node with a driver that has faults on demand.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := newNode(t)
	f.name = "test-driver"
	f.config = func(script string) map[string]any {
		return map[string]any{"script": script}
	}
	dir := filepath.Join(f.dir, "plugins")
	f.plugin = drivertest.InstallPlugin(t, dir, drivertest.DriverPlugin, kit.PlainProgram())
	f.open(nil)
	return f
}

func newNode(t *testing.T) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp("", "bx")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plugins", "s", "tasks", "store"} {
		err := os.Mkdir(filepath.Join(dir, name), 0o700)
		if err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{t: t, dir: dir, users: DefaultUserRange()}
	f.records, err = store.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, id := range f.tasks { // a test that fails leaves some
			_ = f.logs().stop(context.Background(), id)
		}
		none := func(string) bool { return false }
		if f.catalog != nil {
			err := f.catalog.KillOthers(context.Background(), f.records, none)
			if err != nil {
				t.Error(err)
			}
		}
		_ = f.records.Close()
		_ = os.RemoveAll(dir)
	})
	return f
}

// open asks the plugin, as at the start of an agent with that configuration.
func (f *fixture) open(config map[string]any) {
	f.t.Helper()
	var err error
	f.catalog, err = catalog.Open(f.t.Context(), catalog.Config{
		Dir:     filepath.Join(f.dir, "plugins"),
		Sockets: filepath.Join(f.dir, "s"),
		Plugins: []*catalog.PluginConfig{{Name: f.name, Config: config}},
	}, hclog.NewNullLogger())
	if err != nil {
		f.t.Fatal(err)
	}
}

// agent is one life of the agent.
type agent struct {
	*Driver
	f       *fixture
	reports chan *structs.DriverInfo
	events  chan driver.TaskEvent
	stop    func()
}

// agent starts an agent and waits until the driver is healthy.
func (f *fixture) agent() *agent {
	f.t.Helper()
	a := f.launch()
	a.await("healthy", func(info *structs.DriverInfo) bool { return info.Healthy })
	return a
}

// logs starts the helpers of tasks.
func (f *fixture) logs() Logs {
	return NewLogs(f.name+"-logs", executor.Config{
		Dir:     filepath.Join(f.dir, "tasks"),
		Command: []string{kit.PlainProgram(), "executor"},
	})
}

// launch starts an agent.
func (f *fixture) launch() *agent {
	f.t.Helper()
	a := &agent{
		f:       f,
		reports: make(chan *structs.DriverInfo, 1000),
		events:  make(chan driver.TaskEvent, 1000),
	}
	a.Driver = New(f.name, Config{
		Catalog: f.catalog,
		Records: f.records,
		Node:    Node{ID: "n1", Name: "node"},
		MHz:     2000,
		Logs:    f.logs(),
		Users:   f.users,
		Chroot:  map[string]string{"/bin": "/bin", "/none": "/none"},
		Covers:  f.covers,
		Events:  func(e driver.TaskEvent) { a.events <- e },
	}, hclog.NewNullLogger())
	a.supervisor.Pace = backoff.Backoff{Min: 100 * time.Millisecond, Max: 400 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx, func(info *structs.DriverInfo) { a.reports <- info })
	}()
	a.stop = func() {
		cancel()
		<-done
	}
	f.t.Cleanup(a.stop)
	return a
}

// await waits for a report.
func (a *agent) await(what string, ok func(*structs.DriverInfo) bool) *structs.DriverInfo {
	a.f.t.Helper()
	limit := time.After(2 * time.Minute)
	var last *structs.DriverInfo
	for {
		select {
		case last = <-a.reports:
			if ok(last) {
				return last
			}
		case <-limit:
			a.f.t.Fatalf("the driver is not %s in time, but %+v", what, last)
		}
	}
}

// awaitUnhealthy waits for a report with that description.
func (a *agent) awaitUnhealthy(description string) {
	a.f.t.Helper()
	a.await("unhealthy: "+description, func(info *structs.DriverInfo) bool {
		return !info.Healthy && strings.Contains(info.HealthDescription, description)
	})
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
	f.tasks = append(f.tasks, id+"/web")
	return &driver.TaskConfig{
		ID:     id + "/web",
		Task:   "web",
		Config: f.config(script),
		Of:     driver.Origin{Namespace: "default", JobID: "job1", JobName: "job one", Group: "g"},
		Env: map[string]string{
			"GREETING":        "hello",
			"NOMAD_JOB_ID":    "other",
			"NOMAD_ALLOC_DIR": dirs.AllocShared,
			"PATH":            os.Getenv("PATH"),
		},
		Resources: structs.Resources{CPU: 100, MemoryMB: 64},
		Dirs:      dirs,
		LogConfig: structs.LogConfig{MaxFiles: 2, MaxFileSizeMB: 1},
	}
}

func (a *agent) start(cfg *driver.TaskConfig) *driver.Handle {
	a.f.t.Helper()
	h, err := a.Start(a.f.t.Context(), cfg)
	if err != nil {
		a.f.t.Fatal(err)
	}
	return h
}

func (a *agent) wait(id string) *driver.ExitResult {
	a.f.t.Helper()
	result, err := a.Wait(a.f.t.Context(), id)
	if err != nil {
		a.f.t.Fatal(err)
	}
	return result
}

// waiting waits in the background.
func (a *agent) waiting(id string) <-chan *driver.ExitResult {
	results := make(chan *driver.ExitResult, 1)
	go func() {
		defer close(results)
		result, err := a.Wait(context.Background(), id)
		if err == nil {
			results <- result
		}
	}()
	return results
}

func (a *agent) destroy(id string) {
	a.f.t.Helper()
	if err := a.Destroy(a.f.t.Context(), id, nil); err != nil {
		a.f.t.Error(err)
	}
}

// record is the record of the one process of a plugin.
func (f *fixture) record() catalog.Reattach {
	f.t.Helper()
	all, err := store.NewTable[catalog.Reattach]("plugin_processes").All(f.records, "")
	if err != nil || len(all) != 1 {
		f.t.Fatalf("got %v, %v, want one process", all, err)
	}
	return *all[0].Value
}

// until waits for a condition that a process makes true.
func (f *fixture) until(what string, ok func() bool) {
	f.t.Helper()
	for limit := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			f.t.Fatalf("%s: not in time", what)
		}
	}
}

func (f *fixture) awaitOutput(cfg *driver.TaskConfig, want string) {
	f.t.Helper()
	path := filepath.Join(cfg.Dirs.Logs, "web.stdout.0")
	f.until("the output is "+want, func() bool {
		text, _ := os.ReadFile(path)
		return string(text) == want
	})
}

// loops is a script that runs until a file is there, or the directory of the test is gone.
const loops = "echo up; while [ -d local ] && [ ! -e local/end ]; do sleep 0.05; done"

// end makes the script end.
func (f *fixture) end(cfg *driver.TaskConfig) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(cfg.Dirs.Local, "end"), nil, 0o600); err != nil {
		f.t.Fatal(err)
	}
}
