package template

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sync/semaphore"

	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/client/hooks"
	"berth/client/store"
	"berth/consul/lookup"
	"berth/structs"
	"berth/structs/defaults"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a task on a node, which outlives the agent: its directories, the store, and its events.
type fixture struct {
	*drivertest.Tree
	t    *testing.T
	db   *store.DB
	meta map[string]string // of the node
	env  map[string]string // of the process
	task *structs.Task
	pool *lookup.Pool

	mu     sync.Mutex
	events []string
}

func newFixture(t *testing.T, list ...*structs.Template) *fixture {
	t.Helper()
	fx := &fixture{
		Tree: drivertest.NewTree(t),
		t:    t,
		meta: map[string]string{"rack": "r1"},
		env:  map[string]string{"PORT": "80"},
		task: &structs.Task{Name: "web", Templates: list},
		pool: lookup.New(lookup.Config{Logger: hclog.NewNullLogger()}),
	}
	job := &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{{Name: "g", Tasks: []*structs.Task{fx.task}}}}
	defaults.Canonicalize(job)
	db, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fx.db = db
	t.Cleanup(func() {
		err := db.Close()
		if err != nil {
			t.Error(err)
		}
	})
	return fx
}

// hook is the hook of a new agent.
func (fx *fixture) hook() *templates {
	alloc := &hooks.AllocEnv{
		Alloc: &structs.Allocation{ID: "a", Namespace: "team", JobID: "j", TaskGroup: "g"},
		Dir:   fx.Path(""),
	}
	config := Config{fx.db, hclog.NewNullLogger(), semaphore.NewWeighted(1), fx.pool}
	return New(config, alloc, fx.task).(*templates)
}

func (fx *fixture) taskEnv() *hooks.TaskEnv {
	vars := map[string]string{
		"attr.kernel.name": "linux",
		"NOMAD_TASK_DIR":   "/local",
		"NOMAD_TASK_NAME":  "web",
	}
	config := &driver.TaskConfig{Env: map[string]string{}, Dirs: fx.Dirs()}
	for k, v := range fx.env {
		config.Env[k] = v
	}
	return &hooks.TaskEnv{
		Task:      fx.task,
		Config:    config,
		Seen:      driver.Inside,
		Variables: vars,
		Expand: func(s string) string {
			return os.Expand(s, func(name string) string { return vars[name] })
		},
		Node: func() *structs.Node {
			fx.mu.Lock()
			defer fx.mu.Unlock()
			return &structs.Node{Meta: fx.meta}
		},
		Emit: fx.Emit,
	}
}

func (fx *fixture) Emit(e *structs.TaskEvent) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	fx.events = append(fx.events, e.Type+": "+e.Message)
}

func (fx *fixture) said() []string {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return fx.events
}

// up renders the templates for a start of the process.
func (fx *fixture) up() (*templates, *hooks.TaskEnv, error) {
	h := fx.hook()
	env := fx.taskEnv()
	return h, env, h.Up(fx.t.Context(), env)
}

func (fx *fixture) mustUp() (*templates, *hooks.TaskEnv) {
	fx.t.Helper()
	h, env, err := fx.up()
	if err != nil {
		fx.t.Fatal(err)
	}
	return h, env
}

// control is the task of a hook.
type control struct {
	hooks.Control
	*fixture
	acts    chan string
	command func(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error)
}

func newControl(fx *fixture) *control { return &control{fixture: fx, acts: make(chan string, 10)} }

func (c *control) Emit(e *structs.TaskEvent) { c.fixture.Emit(e) }

func (c *control) RestartNow(reason string) { c.acts <- "restart: " + reason }

func (c *control) Fail(kind, reason string) { c.acts <- "fail: " + kind + ": " + reason }

func (c *control) Signal(_ context.Context, signal string) error {
	c.acts <- "signal " + signal
	if signal == "SIGUSR2" {
		return errors.New("no such process")
	}
	return nil
}

func (c *control) Exec(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
	return c.command(ctx, x)
}

// done lists the acts so far.
func (c *control) done() (acts []string) {
	for {
		select {
		case act := <-c.acts:
			acts = append(acts, act)
		default:
			return acts
		}
	}
}
