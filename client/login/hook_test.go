package login

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/taskdirs"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
	"berth/structs/defaults"
	"berth/vault/vaulttest"
)

// signer signs identities of an allocation in a form that the Vault of a test reads.
type signer struct{ alloc string }

func (s signer) Token(kind, workload, name string) (hooks.Token, bool) {
	return hooks.Token{
		JWT:     structs.Secret(s.alloc + "/" + kind + "/" + workload + "/" + name),
		Expires: time.Now().Add(time.Hour),
	}, true
}

func (signer) Changed() <-chan struct{} { return nil }

// control is a running process.
type control struct {
	hooks.Control
	mu   sync.Mutex
	done []string
	news chan struct{} // receives after each action
}

func (c *control) note(action string) {
	c.mu.Lock()
	c.done = append(c.done, action)
	c.mu.Unlock()
	c.news <- struct{}{}
}

func (c *control) Emit(*structs.TaskEvent)                     {}
func (c *control) RestartNow(string)                           { c.note("restart") }
func (c *control) Signal(_ context.Context, name string) error { c.note(name); return nil }

// fixture is a task with a block vault, on a node that uses the Vault of the test.
type fixture struct {
	t      *testing.T
	vault  *vaulttest.Server
	cfg    Config
	alloc  *hooks.AllocEnv
	task   *structs.Task
	stop   func()
	events []string
}

func newFixture(t *testing.T, block structs.Vault) *fixture {
	t.Helper()
	fx := &fixture{t: t, vault: vaulttest.New(t)}
	fx.vault.Verify = func(jwt string) (map[string]any, error) { return map[string]any{"jwt": jwt}, nil }
	fx.vault.Roles["web"] = vaulttest.Role{TTL: time.Hour, Paths: []string{"secret/", "database/"},
		Claims: map[string]string{"jwt": "a1/task/server/vault_default"}}
	fx.vault.DefaultRole = "web"
	fx.task = &structs.Task{Name: "server", Driver: "exec", Vault: &block}
	g := &structs.TaskGroup{Name: "g", Tasks: []*structs.Task{fx.task}}
	defaults.Canonicalize(&structs.Job{ID: "web", TaskGroups: []*structs.TaskGroup{g}})
	fx.alloc = &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a1", JobID: "web"}, Group: g, Dir: t.TempDir()}
	fx.alloc.Identities = signer{"a1"}
	if err := taskdirs.Make(fx.alloc.Dir, g); err != nil {
		t.Fatal(err)
	}
	fx.cfg = Config{
		Logger:        hclog.NewNullLogger(),
		Progress:      func(string, string) {},
		Report:        func(string, string) {},
		Vault:         fx.vault.Client(t),
		VaultSettings: fx.vault.Config(),
	}
	fx.newAgent()
	t.Cleanup(func() { fx.stop() })
	return fx
}

// newAgent starts another agent of the node.
func (fx *fixture) newAgent() {
	if fx.stop != nil {
		fx.stop()
	}
	keeper := NewKeeper(hclog.NewNullLogger())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		keeper.Run(ctx)
		close(done)
	}()
	fx.cfg.Keeper = keeper
	fx.stop = func() {
		cancel()
		<-done
	}
}

func (fx *fixture) hook() *taskLogin { return NewVault(fx.cfg, fx.alloc, fx.task).(*taskLogin) }

func (fx *fixture) env(running bool) *hooks.TaskEnv {
	return &hooks.TaskEnv{
		AllocEnv: fx.alloc,
		Task:     fx.task,
		Running:  running,
		Emit:     func(e *structs.TaskEvent) { fx.events = append(fx.events, e.Message) },
		Config: &driver.TaskConfig{
			Env:  map[string]string{},
			Dirs: taskdirs.OfTask(fx.alloc.Dir, fx.task.Name),
		},
	}
}

func (fx *fixture) mustUp(h *taskLogin, running bool) map[string]string {
	fx.t.Helper()
	env := fx.env(running)
	if err := h.Up(fx.t.Context(), env); err != nil {
		fx.t.Fatal(err)
	}
	return env.Config.Env
}

func (fx *fixture) file() string {
	text, _ := os.ReadFile(filepath.Join(taskdirs.Secrets(fx.alloc.Dir, "server"), driver.VaultTokenFile))
	return string(text)
}

// mustRunWith starts the process with the token, and returns its control.
func (fx *fixture) started(h *taskLogin) *control {
	c := &control{news: make(chan struct{}, 8)}
	h.Started(fx.t.Context(), c)
	return c
}

func TestVault_GivesTheTaskItsToken(t *testing.T) {
	for name, c := range map[string]struct {
		block structs.Vault
		env   map[string]string // without the token
		file  bool
	}{
		"all": {structs.Vault{}, map[string]string{"VAULT_TOKEN": ""}, true},
		"namespace": {structs.Vault{Namespace: "ns"},
			map[string]string{"VAULT_TOKEN": "", "VAULT_NAMESPACE": "ns"}, true},
		"file": {structs.Vault{Env: new(false)}, nil, true},
		"env":  {structs.Vault{DisableFile: true}, map[string]string{"VAULT_TOKEN": ""}, false},
	} {
		fx := newFixture(t, c.block)
		h := fx.hook()
		got := fx.mustUp(h, false)
		token := fx.cfg.Keeper.secret(vaultKey("a1", "server"))
		if !fx.vault.IsLive(string(token)) || len(got) != len(c.env) {
			t.Fatalf("%s: got %v", name, got)
		}
		for variable, want := range c.env {
			if want == "" {
				want = string(token)
			}
			if got[variable] != want {
				t.Errorf("%s: %s is %q", name, variable, got[variable])
			}
		}
		if text := fx.file(); (text == string(token)) != c.file || !c.file && text != "" {
			t.Errorf("%s: the file has %q", name, text)
		}
		if err := h.Down(t.Context()); err != nil || fx.vault.Live() != 0 {
			t.Errorf("%s: %v, %d live tokens", name, err, fx.vault.Live())
		}
	}
}

func TestVault_KeepsTheTokenOverRestarts(t *testing.T) {
	fx := newFixture(t, structs.Vault{})
	h := fx.hook()
	fx.mustUp(h, false)
	first := fx.file()
	fx.mustUp(h, false) // the task has restarted

	// The agent has restarted: with a process that runs, and with one that has ended meanwhile.
	for _, running := range []bool{true, false} {
		fx.newAgent()
		h = fx.hook()
		fx.mustUp(h, running)
		if now := fx.cfg.Keeper.secret(vaultKey("a1", "server")); string(now) != first {
			t.Errorf("running %v: the token is another one", running)
		}
	}
	if fx.vault.Count("login") != 1 || fx.file() != first {
		t.Errorf("got %d logins", fx.vault.Count("login"))
	}

	// An agent that finds the allocation ended revokes the token without an Up.
	fx.newAgent()
	if err := fx.hook().Down(t.Context()); err != nil || fx.vault.Live() != 0 {
		t.Errorf("%v, %d live tokens", err, fx.vault.Live())
	}
}

// TestVault_ActsOnAnotherToken: the token of a process has ended while no agent ran.
func TestVault_ActsOnAnotherToken(t *testing.T) {
	for mode, want := range map[string]string{"restart": "restart", "signal": "SIGUSR1", "noop": ""} {
		fx := newFixture(t, structs.Vault{ChangeMode: mode, ChangeSignal: "SIGUSR1"})
		fx.mustUp(fx.hook(), false)
		first := fx.file()
		path := filepath.Join(taskdirs.Secrets(fx.alloc.Dir, "server"), driver.VaultTokenFile)
		if err := os.Chmod(path, 0o444); err != nil { // as the driver does for some users
			t.Fatal(err)
		}
		fx.vault.Revoke()
		fx.newAgent()
		h := fx.hook()
		process := fx.started(h)
		fx.mustUp(h, true)
		if want != "" {
			<-process.news
		}
		awaitToken(t, fx, first)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o444 {
			t.Errorf("%s: the mode of the file is %v, %v", mode, info.Mode(), err)
		}
		process.mu.Lock()
		if got := strings.Join(process.done, ","); got != want {
			t.Errorf("%s: got %q", mode, got)
		}
		process.mu.Unlock()
		h.Stopped()
	}
}

// awaitToken waits until the file has another token, and its user a live one.
func awaitToken(t *testing.T, fx *fixture, former string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		if now := fx.file(); now != former && fx.vault.IsLive(now) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("there is no other token")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestVault_WaitsForALogin(t *testing.T) {
	fx := newFixture(t, structs.Vault{})
	fx.vault.Set(func(s *vaulttest.Server) { s.Sealed = true })
	env := fx.env(false)
	told := make(chan string, 16)
	env.Emit = func(e *structs.TaskEvent) { told <- e.Message }
	result := make(chan error, 1)
	h := fx.hook()
	go func() { result <- h.Up(t.Context(), env) }()
	got := <-told
	if !strings.Contains(got, "waits for its token of Vault: ") || !strings.Contains(got, "sealed") {
		t.Errorf("got %s", got)
	}
	fx.vault.Set(func(s *vaulttest.Server) { s.Sealed = false })
	if err := <-result; err != nil || env.Config.Env["VAULT_TOKEN"] == "" {
		t.Errorf("got %v", err)
	}

	// The end of the agent is no failure of the task.
	fx = newFixture(t, structs.Vault{Role: "none"})
	ctx, cancel := context.WithCancel(t.Context())
	env = fx.env(false)
	env.Emit = func(*structs.TaskEvent) { cancel() }
	if err := fx.hook().Up(ctx, env); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

func TestVault_NeedsAVaultOnTheNode(t *testing.T) {
	fx := newFixture(t, structs.Vault{})
	fx.cfg.Vault = nil
	err := fx.hook().Up(t.Context(), fx.env(false))
	if err == nil || !strings.Contains(err.Error(), "set vault.enabled") {
		t.Errorf("got %v", err)
	}
	if err := fx.hook().Down(t.Context()); err != nil {
		t.Error(err)
	}
	if NewVault(fx.cfg, fx.alloc, &structs.Task{}) != nil {
		t.Error("a task without the block has a hook")
	}
}
