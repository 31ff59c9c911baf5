package docker

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/docker/follow"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	"berth/structs"
	"berth/test/kit"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:], executor.Other{Arg: follow.Arg, Main: follow.Main}))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each helper takes a second to end
	lostPause.Min = time.Millisecond
	lostPause.Max = 20 * time.Millisecond
	lookTimeout = time.Minute // a busy machine keeps to both
	cleanupTimeout = time.Minute
	absence.Min = time.Millisecond
	absence.Max = 20 * time.Millisecond
	goleak.VerifyTestMain(m, goleak.Cleanup(kit.ExitPlain))
}

// noOutput records the calls instead of starting processes.
type noOutput struct {
	mu      sync.Mutex
	started map[string]int
	stopped map[string]int
	fault   error
}

func (o *noOutput) start(_ context.Context, t *task) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started[t.id]++
	return o.fault
}

func (o *noOutput) ensure(ctx context.Context, t *task) error { return o.start(ctx, t) }

func (o *noOutput) stop(_ context.Context, taskID string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped[taskID]++
	return nil
}

// fixture is a node with a scriptable daemon.
type fixture struct {
	*dockertest.Fake
	t      *testing.T
	dir    string
	output *noOutput

	mu     sync.Mutex
	events []driver.TaskEvent
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		Fake:   dockertest.NewFake(t),
		t:      t,
		dir:    t.TempDir(),
		output: &noOutput{started: map[string]int{}, stopped: map[string]int{}},
	}
	f.AddImage("a:1", "sha256:a")
	return f
}

// config has the settings of a node that allows nothing special.
func (f *fixture) config() taskconfig.Settings {
	cfg := taskconfig.DefaultSettings()
	cfg.Endpoint = f.Endpoint()
	return cfg
}

// agent makes the driver of one life of the agent, which does not run.
func (f *fixture) agent(cfg taskconfig.Settings) *Driver {
	d := newDriver(cfg, Options{
		NodeID:   "n1",
		NodeName: "node",
		MHz:      2000,
		Dir:      f.dir,
		Pause:    []string{f.dir + "/pause"},
		Logger:   hclog.NewNullLogger(),
		Events: func(e driver.TaskEvent) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e)
		},
	})
	d.output = f.output
	return d
}

// run runs a driver until the end of the test, and returns its reports.
func (f *fixture) run(d *Driver) <-chan *structs.DriverInfo {
	ctx, cancel := context.WithCancel(context.Background())
	reports := make(chan *structs.DriverInfo, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Run(ctx, func(info *structs.DriverInfo) {
			select {
			case reports <- info:
			default:
			}
		})
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
	return reports
}

// await returns the first report that satisfies a condition.
func (f *fixture) await(reports <-chan *structs.DriverInfo, healthy bool) *structs.DriverInfo {
	f.t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		select {
		case info := <-reports:
			if info.Healthy == healthy {
				return info
			}
		case <-limit:
			f.t.Fatalf("the driver does not become healthy=%t", healthy)
		}
	}
}

// task is a configuration of a task with an image that the daemon has.
func (f *fixture) task(alloc string) *driver.TaskConfig {
	f.t.Helper()
	root := filepath.Join(f.dir, alloc)
	cfg := &driver.TaskConfig{
		ID:   alloc + "/web",
		Task: "web",
		Of: driver.Origin{
			Namespace: "ns",
			JobID:     "job",
			JobName:   "name",
			Group:     "group",
			Alloc:     "name.group[0]",
		},
		Config:    map[string]any{"image": "a:1"},
		Env:       map[string]string{"BERTH_JOB_ID": "other", "GREETING": "hello"},
		Resources: structs.Resources{CPU: 500, MemoryMB: 64},
		Dirs: driver.Dirs{
			Task:        filepath.Join(root, "web"),
			AllocShared: filepath.Join(root, "alloc"),
			Local:       filepath.Join(root, "web", "local"),
			Secrets:     filepath.Join(root, "web", "secrets"),
			Logs:        filepath.Join(root, "alloc", "logs"),
		},
		LogConfig: structs.LogConfig{MaxFiles: 2, MaxFileSizeMB: 3},
	}
	for _, dir := range []string{cfg.Dirs.Local, cfg.Dirs.Secrets, cfg.Dirs.Logs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			f.t.Fatal(err)
		}
	}
	return cfg
}

func (f *fixture) start(d *Driver, cfg *driver.TaskConfig) *driver.Handle {
	f.t.Helper()
	h, err := d.Start(f.t.Context(), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

// container returns the record of the container of a task.
func (f *fixture) container(cfg *driver.TaskConfig) *dockertest.FakeContainer {
	f.t.Helper()
	c := f.Find(containerName(cfg.ID))
	if c == nil {
		f.t.Fatalf("there is no container %s", containerName(cfg.ID))
	}
	return c
}

// waiting waits for the end of a task.
func (f *fixture) waiting(d *Driver, cfg *driver.TaskConfig) <-chan *driver.ExitResult {
	ended := make(chan *driver.ExitResult, 1)
	go func() {
		result, err := d.Wait(f.t.Context(), cfg.ID)
		if err != nil {
			f.t.Error(err)
		}
		ended <- result
	}()
	return ended
}

func (f *fixture) result(ended <-chan *driver.ExitResult) *driver.ExitResult {
	f.t.Helper()
	select {
	case result := <-ended:
		return result
	case <-time.After(2 * time.Minute):
		f.t.Fatal("the wait does not end")
		return nil
	}
}

// awaitCalls waits until a call was made a number of times.
func (f *fixture) awaitCalls(call string, n int) {
	f.t.Helper()
	for limit := time.Now().Add(2 * time.Minute); len(f.Calls(call)) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			f.t.Fatalf("%s was called %d times, want %d", call, len(f.Calls(call)), n)
		}
	}
}

// shorten shortens the bound of a call for a test in which the call hangs.
func shorten(t *testing.T, bound *time.Duration) {
	t.Helper()
	usual := *bound
	*bound = 300 * time.Millisecond
	t.Cleanup(func() { *bound = usual })
}

// shortContext ends soon.
func shortContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

var nullLogger = hclog.NewNullLogger()

// cores are the machine's, of which a processor quota is a share.
func cores() int { return runtime.NumCPU() }

// uidOf is the owner of a file.
func uidOf(info os.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }
