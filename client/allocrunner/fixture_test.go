package allocrunner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/client/drivers/executor"
	"berth/client/hooks"
	"berth/client/store"
	"berth/structs"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each supervisor takes a second to end
	goleak.VerifyTestMain(m)
}

// fixture is all that outlives an agent: the machine's tasks, the effects of hooks, the store's file.
type fixture struct {
	t       *testing.T
	dir     string
	machine *drivertest.Machine

	mu    sync.Mutex
	up    map[string]bool
	log   []string
	fail  map[string]func() error // by "up x" or "down x"
	after func(point string)
}

func newFixture(t *testing.T) *fixture {
	return &fixture{
		t:       t,
		dir:     t.TempDir(),
		machine: drivertest.NewMachine(),
		up:      map[string]bool{},
		fail:    map[string]func() error{},
	}
}

func (fx *fixture) do(verb, name string, up bool) error {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	point := verb + " " + name
	fx.log = append(fx.log, point)
	if f := fx.fail[point]; f != nil {
		if err := f(); err != nil {
			return err
		}
	}
	if up {
		fx.up[name] = true
	} else {
		delete(fx.up, name)
	}
	return nil
}

func (fx *fixture) note(event string) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	fx.log = append(fx.log, event)
}

func (fx *fixture) logged() []string {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return slices.Clone(fx.log)
}

// failTimes makes a step of a hook fail n times.
func (fx *fixture) failTimes(point string, n int) {
	fx.fail[point] = func() error {
		n--
		if n >= 0 {
			return fmt.Errorf("%s does not work", point)
		}
		return nil
	}
}

// testHook is a hook of either kind.
type testHook struct {
	fx    *fixture
	name  string
	block bool // Up waits until it is interrupted
	// awaits makes Stopping of a stoppingHook wait until it is interrupted.
	awaits bool
	setup  func(env *hooks.AllocEnv)

	ctx     context.Context
	control hooks.Control
}

func (h *testHook) Name() string { return h.name }
func (h *testHook) run(ctx context.Context) error {
	err := h.fx.do("up", h.name, true)
	if h.block {
		<-ctx.Done()
		return ctx.Err()
	}
	h.fx.passed("up " + h.name)
	return err
}

func (fx *fixture) passed(point string) {
	if fx.after != nil {
		fx.after(point)
	}
}

func (h *testHook) Down(context.Context) error {
	err := h.fx.do("down", h.name, false)
	h.fx.passed("down " + h.name)
	return err
}

type allocHook struct{ *testHook }

func (h allocHook) Up(ctx context.Context, env *hooks.AllocEnv) error {
	if h.setup != nil {
		h.setup(env)
	}
	return h.run(ctx)
}

type taskHook struct{ *testHook }

func (h taskHook) Up(ctx context.Context, env *hooks.TaskEnv) error {
	env.Config.Env["HOOK"] = h.name
	return h.run(ctx)
}

func (h taskHook) Started(ctx context.Context, c hooks.Control) {
	h.fx.note("started " + h.name)
	h.ctx, h.control = ctx, c
}

// stoppingHook is a taskHook that also has a part in the stop of the process.
type stoppingHook struct{ taskHook }

func (h stoppingHook) Stopping(ctx context.Context) {
	h.fx.note("stopping " + h.name)
	if h.awaits {
		<-ctx.Done()
	}
}

func (h taskHook) Stopped() {
	why := "process ended"
	if h.ctx.Err() != nil {
		why = "agent stops"
	}
	h.fx.note("stopped (" + why + ") " + h.name)
}

// agent is one agent on the machine of a fixture.
type agent struct {
	fx        *fixture
	deps      Deps
	db        *store.DB
	contacted chan struct{}
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	allocs    []*testHook
	tasks     map[string]*testHook

	mu      sync.Mutex
	updates []*structs.AllocClientUpdate
}

// agent begins a life: allocation hooks a and b, one task hook per task, named after it.
func (fx *fixture) agent() *agent {
	fx.t.Helper()
	db, err := store.Open(fx.dir)
	if err != nil {
		fx.t.Fatal(err)
	}
	a := &agent{
		fx:        fx,
		db:        db,
		contacted: make(chan struct{}),
		tasks:     map[string]*testHook{},
	}
	a.allocs = []*testHook{{fx: fx, name: "a"}, {fx: fx, name: "b"}}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.deps = Deps{
		Logger:           hclog.NewNullLogger(),
		DB:               db,
		Dir:              filepath.Join(fx.dir, "alloc"),
		Region:           "global",
		Drivers:          fx.machine.Drivers(),
		ServersContacted: a.contacted,
		DeniedUsers:      []string{"root", "web"},
		Node: func() *structs.Node {
			return &structs.Node{
				ID:         "n1",
				Name:       "node1",
				Datacenter: "dc1",
				Attributes: map[string]string{"kernel.name": "linux"},
				Meta:       map[string]string{"rack": "r1"},
			}
		},
		AllocHooks: func(*hooks.AllocEnv) []hooks.Alloc {
			var list []hooks.Alloc
			for _, h := range a.allocs {
				list = append(list, allocHook{h})
			}
			return list
		},
		TaskHooks: func(_ *hooks.AllocEnv, t *structs.Task) []hooks.Task {
			h := a.tasks[t.Name]
			if h == nil {
				h = &testHook{fx: fx, name: t.Name}
				a.tasks[t.Name] = h
			}
			return []hooks.Task{taskHook{h}}
		},
		Changed: func(u *structs.AllocClientUpdate) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.updates = append(a.updates, u)
		},
	}
	return a
}

func (a *agent) start(r *Runner, err error) *Runner {
	a.fx.t.Helper()
	if err != nil {
		a.fx.t.Fatal(err)
	}
	a.wg.Go(func() { r.Run(a.ctx) })
	return r
}

func (a *agent) new(alloc *structs.Allocation) *Runner {
	return a.start(New(a.deps, alloc))
}

// restore starts the runners of all that is in the store.
func (a *agent) restore() []*Runner {
	a.fx.t.Helper()
	saved, err := Saved(a.db)
	if err != nil {
		a.fx.t.Fatal(err)
	}
	var all []*Runner
	for _, alloc := range saved {
		all = append(all, a.start(Restore(a.deps, alloc)))
	}
	return all
}

// stop ends the agent. Its tasks run on.
func (a *agent) stop() {
	a.cancel()
	a.wg.Wait()
	if err := a.db.Close(); err != nil {
		a.fx.t.Error(err)
	}
	a.fx.machine.Forget()
}

func (a *agent) last() *structs.AllocClientUpdate {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.updates) == 0 {
		return &structs.AllocClientUpdate{}
	}
	return a.updates[len(a.updates)-1]
}

// testAlloc is an allocation of a service with the tasks named.
func testAlloc(tasks ...string) *structs.Allocation {
	g := &structs.TaskGroup{
		Name: "g",
		RestartPolicy: &structs.RestartPolicy{
			Attempts: 1,
			Interval: time.Minute,
			Delay:    5 * time.Second,
			Mode:     "fail",
		},
	}
	for _, name := range tasks {
		g.Tasks = append(g.Tasks, &structs.Task{
			Name:        name,
			Driver:      "fake",
			Config:      map[string]any{"command": "run"},
			KillTimeout: 7 * time.Second,
		})
	}
	job := &structs.Job{
		ID:         "job",
		Name:       "job",
		Namespace:  "default",
		Type:       structs.JobService,
		TaskGroups: []*structs.TaskGroup{g},
	}
	return &structs.Allocation{
		ID:               "alloc1",
		Namespace:        "default",
		Name:             "job.g[0]",
		JobID:            "job",
		Job:              job,
		TaskGroup:        "g",
		DesiredStatus:    structs.AllocDesiredRun,
		ClientStatus:     structs.AllocPending,
		AllocModifyIndex: 1,
	}
}

func asBatch(a *structs.Allocation) *structs.Allocation {
	a.Job.Type = structs.JobBatch
	return a
}

func eventsOf(s *structs.TaskState) []string {
	var types []string
	for _, e := range s.Events {
		types = append(types, e.Type)
	}
	return types
}

func equal(t *testing.T, subject string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", subject, got, want)
	}
}

// inVirtualTime runs a test in virtual time.
func inVirtualTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

var ok = driver.ExitResult{}

func exitResult(code int) driver.ExitResult { return driver.ExitResult{ExitCode: code} }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
