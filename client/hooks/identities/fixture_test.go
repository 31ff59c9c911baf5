package identities

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/client/store"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/defaults"
	"berth/test/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// life is that of the tokens of the fixture's servers.
const life = time.Hour

// fixture is a node with an allocation a1 of a task web, and its servers.
type fixture struct {
	t       *testing.T
	dir     string // of the task
	db      *store.DB
	group   *structs.TaskGroup
	running bool // the task runs, also before the agent
	env     *hooks.AllocEnv
	manager *Manager
	ended   chan struct{}
	cancel  context.CancelFunc

	mu       sync.Mutex
	answer   func(w access.WantedIdentity, n int) access.SignedIdentity
	err      error // of the servers, in the place of an answer
	calls    int   // that the servers have answered
	requests []request
	progress []string
	acts     []string // on the process
	reject   error    // of signals
	events   []string
}

// request is one that the servers got.
type request struct {
	at   time.Time
	list []access.WantedIdentity
}

// newFixture returns a node whose task web has identities.
func newFixture(t *testing.T, list ...*structs.WorkloadIdentity) *fixture {
	t.Helper()
	fx := &fixture{t: t, dir: filepath.Join(t.TempDir(), "web")}
	for _, dir := range []string{"local", "secrets"} {
		kit.Must(t, os.MkdirAll(filepath.Join(fx.dir, dir), 0o755))
	}
	task := &structs.Task{Name: "web", Identities: list}
	fx.group = &structs.TaskGroup{Name: "g", Tasks: []*structs.Task{task}}
	defaults.Canonicalize(&structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{fx.group}})
	fx.answer = func(w access.WantedIdentity, n int) access.SignedIdentity {
		return access.SignedIdentity{
			WantedIdentity: w,
			JWT:            structs.Secret(fmt.Sprintf("token-%s-%d", w.Name, n)),
			Expiration:     time.Now().Add(life).UnixNano(),
		}
	}
	db, err := store.Open(t.TempDir())
	kit.Must(t, err)
	fx.db = db
	fx.agent()
	return fx
}

// agent starts the part of an agent, in the place of that of an earlier one.
func (fx *fixture) agent() {
	fx.manager = New(Config{
		NodeID:   "n1",
		SecretID: "s1",
		Servers:  fx,
		DB:       fx.db,
		Logger:   hclog.NewNullLogger(),
		Progress: func(_, reason string) { fx.note(&fx.progress, reason) },
	})
	fx.env = &hooks.AllocEnv{
		Alloc:   &structs.Allocation{ID: "a1"},
		Group:   fx.group,
		Running: func() bool { return fx.running },
	}
	ctx, cancel := context.WithCancel(context.Background())
	fx.cancel = cancel
	fx.ended = make(chan struct{})
	go func() {
		defer close(fx.ended)
		fx.manager.Run(ctx)
	}()
}

// end stops the agent.
func (fx *fixture) end() {
	fx.cancel()
	<-fx.ended
}

// close stops the agent for good.
func (fx *fixture) close() {
	fx.end()
	kit.Must(fx.t, fx.db.Close())
}

// Call implements rpc.Caller.
func (fx *fixture) Call(_ context.Context, method string, req, resp any) error {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	r := req.(*access.SignRequest)
	if method != access.IdentitySign.Name || r.NodeID != "n1" || r.SecretID != "s1" {
		fx.t.Errorf("the request is %s of %+v", method, r)
	}
	fx.requests = append(fx.requests, request{time.Now(), r.Identities})
	if fx.err != nil {
		return fx.err
	}
	fx.calls++
	out := resp.(*access.SignResponse)
	for _, w := range r.Identities {
		out.Signed = append(out.Signed, fx.answer(w, fx.calls))
	}
	return nil
}

func (fx *fixture) note(list *[]string, text string) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	*list = append(*list, text)
}

// noted returns a copy of a list of note.
func (fx *fixture) noted(list *[]string) []string {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return slices.Clone(*list)
}

// set changes the servers or the process.
func (fx *fixture) set(edit func()) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	edit()
}

// asked returns the requests that the servers got, and forgets them.
func (fx *fixture) asked() []request {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	all := fx.requests
	fx.requests = nil
	return all
}

func (fx *fixture) taskEnv() *hooks.TaskEnv {
	return &hooks.TaskEnv{
		AllocEnv: fx.env,
		Task:     fx.group.Tasks[0],
		Config: &driver.TaskConfig{
			Env: map[string]string{},
			Dirs: driver.Dirs{
				Task:    fx.dir,
				Local:   filepath.Join(fx.dir, "local"),
				Secrets: filepath.Join(fx.dir, "secrets"),
			},
		},
		Seen:    driver.Inside,
		Running: fx.running,
		Expand:  func(text string) string { return text },
		Emit:    func(e *structs.TaskEvent) { fx.note(&fx.events, e.Type+": "+e.Message) },
	}
}

// up starts the allocation and its task, and returns the hook of the task with its environment.
func (fx *fixture) up() (hooks.Alloc, *taskHook, *hooks.TaskEnv) {
	fx.t.Helper()
	alloc := fx.manager.Hook(fx.env)
	kit.Must(fx.t, alloc.Up(fx.t.Context(), fx.env))
	task := fx.manager.TaskHook(fx.env, fx.group.Tasks[0]).(*taskHook)
	env := fx.taskEnv()
	kit.Must(fx.t, task.Up(fx.t.Context(), env))
	return alloc, task, env
}

// started starts the allocation, its task and the process. stop ends the process.
func (fx *fixture) started() (alloc hooks.Alloc, task *taskHook) {
	fx.t.Helper()
	alloc, task, _ = fx.up()
	task.Started(fx.t.Context(), process{Control: nil, fixture: fx})
	return alloc, task
}

func (fx *fixture) checkFile(file, want string) {
	fx.t.Helper()
	got, err := os.ReadFile(filepath.Join(fx.dir, file))
	if err != nil || string(got) != want {
		fx.t.Errorf("%s has %q, %v, want %q", file, got, err, want)
	}
}

// process is the process of the task.
type process struct {
	hooks.Control
	*fixture
}

func (p process) RestartNow(reason string) { p.note(&p.acts, "restart: "+reason) }

func (p process) Signal(_ context.Context, signal string) error {
	p.note(&p.acts, signal)
	return p.reject
}

func (p process) Emit(e *structs.TaskEvent) { p.note(&p.events, e.Type+": "+e.Message) }
