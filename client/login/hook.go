package login

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/taskdirs"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/client/hooks/secrets"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/access"
	"berth/vault"
)

// timeLimit bounds the wait of a task for a login that is rejected: its role, or the keys with which the
// other side verifies identities, may be about to come. A task waits without a limit for an other side that
// does not answer.
const timeLimit = 5 * time.Minute

// signalTimeout bounds a signal to a task.
const signalTimeout = 10 * time.Second

// Config has the parts of the agent that the hooks need.
type Config struct {
	Keeper *Keeper
	Logger hclog.Logger
	// Progress receives the reason for which an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
	// Report adds an event to the tasks of an allocation.
	Report func(allocID, message string)

	Vault         *vault.Client // nil: the node uses none
	VaultSettings vault.Config
	Consul        Consul // nil: the node uses none
}

// taskLogin is the hook of a task that logs in at one other side.
type taskLogin struct {
	cfg     Config
	name    string
	side    string // Vault or Consul
	alloc   string
	task    *structs.Task
	dirs    driver.Dirs
	subject Subject
	logger  hclog.Logger

	file      string // of the token in the secrets of the task, "" for none
	variables func(structs.Secret) map[string]string
	mode      string // change_mode
	signal    string

	mu      sync.Mutex
	control hooks.Control // nil: no process runs
}

// NewVault makes the hook that gives a task its token of Vault. It is nil for a task without a block vault.
func NewVault(cfg Config, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if task.Vault == nil {
		return nil
	}

	v := task.Vault
	h := newLogin(cfg, env, task)
	h.name = "vault"
	h.side = "Vault"
	h.file = driver.VaultTokenFile
	if v.DisableFile {
		h.file = ""
	}

	namespace := cfg.VaultSettings.Namespace
	if v.Namespace != "" {
		namespace = v.Namespace
	}

	h.variables = func(token structs.Secret) map[string]string {
		if !structs.HasVaultEnv(v) {
			return nil
		}

		vars := map[string]string{structs.VaultTokenEnv: string(token)}
		if namespace != "" {
			vars[structs.VaultNamespaceEnv] = namespace
		}
		return vars
	}

	h.mode = v.ChangeMode
	h.signal = v.ChangeSignal
	h.subject = Subject{
		Key:     vaultKey(h.alloc, task.Name),
		Forever: v.AllowTokenExpiration,
		Changed: h.changed,
	}

	if cfg.Vault != nil {
		h.subject.Account = &vaultAccount{cfg: cfg, env: env, task: task}
	}

	return h
}

func newLogin(cfg Config, env *hooks.AllocEnv, task *structs.Task) *taskLogin {
	return &taskLogin{
		cfg:    cfg,
		alloc:  env.Alloc.ID,
		task:   task,
		dirs:   taskdirs.OfTask(env.Dir, task.Name),
		logger: cfg.Logger.With("alloc_id", env.Alloc.ID, "task", task.Name),
	}
}

// vaultKey and consulKey are the keys of the tokens of a task.
func vaultKey(alloc, task string) string { return "vault/" + KeyOf(alloc, task) }

func consulKey(alloc, task string) string { return "consul/" + KeyOf(alloc, task) }

// Name implements hooks.Task.
func (h *taskLogin) Name() string { return h.name }

// Up gives the task its token. For a process that runs since before the agent restarted, it goes on with the
// token that it finds.
func (h *taskLogin) Up(ctx context.Context, env *hooks.TaskEnv) error {
	if h.subject.Account == nil {
		return h.failure(structs.Preconditionf("this node uses no %s; set %s in the configuration of its agent",
			h.side, map[string]string{"Vault": "vault.enabled", "Consul": "consul.address"}[h.side]))
	}

	found, err := h.find()
	if err != nil {
		return h.failure(err)
	}

	if env.Running {
		return h.resume(found)
	}

	secret, err := h.present(ctx, env, found)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return h.failure(fmt.Errorf("getting a token of %s: %w", h.side, err))
	}

	if h.file != "" {
		err = secrets.Rewrite(h.dirs, h.file, string(secret))
		if err != nil {
			return err
		}
	}

	for name, value := range h.variables(secret) {
		if _, own := env.Config.Env[name]; !own {
			env.Config.Env[name] = value
		}
	}

	return nil
}

func (h *taskLogin) failure(err error) error {
	return &hooks.Failure{Event: structs.TaskEventSetupFailure, Final: true, Err: err}
}

// find returns the token that an agent has left in the secrets of the task, "" for none.
func (h *taskLogin) find() (structs.Secret, error) {
	if h.file == "" {
		return "", nil
	}

	text, err := secrets.Read(h.dirs, h.file, vault.MaxToken)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}

	// The task can put anything into the file. A text that is no token is none.
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", err
	}
	return structs.Secret(text), nil
}

// resume goes on with the token of a process that runs. Without one, the login is made while it runs, and
// acts on it as another token does.
func (h *taskLogin) resume(found structs.Secret) error {
	if !h.cfg.Keeper.Has(h.subject.Key) {
		h.cfg.Keeper.Keep(h.subject, Token{Secret: found, TTL: foundTTL, found: true})
	}
	return nil
}

// present returns the token for a start of the process: the one that it had before, if it is valid still.
func (h *taskLogin) present(
	ctx context.Context, env *hooks.TaskEnv, found structs.Secret,
) (structs.Secret, error) {
	secret, _, kept := h.cfg.Keeper.Token(h.subject.Key)
	if kept && !h.subject.Forever {
		return secret, nil
	}

	if !kept {
		secret = found
	}

	if secret != "" {
		t, err := check(ctx, h.subject.Account, secret)
		if err == nil {
			h.cfg.Keeper.Keep(h.subject, *t)
			return secret, nil
		}
	}

	t, err := h.await(ctx, env)
	if err != nil {
		return "", err
	}

	h.cfg.Keeper.Keep(h.subject, *t)
	return t.Secret, nil
}

// await logs in, and repeats that. A rejection ends the wait after timeLimit.
func (h *taskLogin) await(ctx context.Context, env *hooks.TaskEnv) (*Token, error) {
	wait := hooks.Wait{
		AllocID:  h.alloc,
		Task:     h.task.Name,
		For:      "its token of " + h.side,
		Progress: h.cfg.Progress,
		Emit:     env.Emit,
	}
	wait.Begin()
	defer wait.End()

	pause := backoff.Backoff{Min: minRetry, Max: maxRetry}
	var rejected time.Time
	for {
		t, err := login(ctx, h.subject.Account)
		if err == nil || ctx.Err() != nil {
			return t, err
		}

		switch {
		case !structs.KindOf(err).Final():
			rejected = time.Time{}
		case rejected.IsZero():
			rejected = time.Now()
		case time.Since(rejected) > timeLimit:
			return nil, err
		}

		wait.Tell(err.Error())
		pause.Wait(ctx)
	}
}

// changed gives the task another token. The Keeper calls it.
func (h *taskLogin) changed(t Token) {
	if h.file != "" {
		err := secrets.Rewrite(h.dirs, h.file, string(t.Secret))
		if err != nil {
			h.logger.Error("failed to write another token", "file", h.file, "error", err)
		}
	}

	h.mu.Lock()
	control := h.control
	h.mu.Unlock()
	if control == nil { // the next start has it
		return
	}

	reason := "the task has another token of " + h.side
	switch h.mode {
	case structs.TemplateRestart:
		control.RestartNow(reason)
	case structs.TemplateSignal:
		h.sendSignal(control, reason)
	}
}

func (h *taskLogin) sendSignal(control hooks.Control, reason string) {
	control.Emit(&structs.TaskEvent{
		Type:    structs.TaskEventSignaling,
		Message: fmt.Sprintf("Task being sent signal %s: %s", h.signal, reason),
	})

	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	err := control.Signal(ctx, h.signal)
	if err != nil {
		control.Emit(&structs.TaskEvent{
			Type:    structs.TaskEventHookMessage,
			Message: fmt.Sprintf("failed to send %s: %v", h.signal, err),
		})
	}
}

// Started implements hooks.Started.
func (h *taskLogin) Started(_ context.Context, task hooks.Control) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.control = task
}

// Stopped implements hooks.Started.
func (h *taskLogin) Stopped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.control = nil
}

// Down revokes the token, also one that a former agent has left.
func (h *taskLogin) Down(ctx context.Context) error {
	if h.subject.Account == nil {
		return nil
	}

	// A directory that is gone has no token. One that cannot be read has none that this agent knows.
	found, err := h.find()
	if err != nil {
		h.logger.Debug("found no token of a former agent", "error", err)
	}

	h.cfg.Keeper.End(ctx, h.subject, found)
	return nil
}

// vaultAccount is the account of a task at Vault.
type vaultAccount struct {
	cfg  Config
	env  *hooks.AllocEnv
	task *structs.Task
}

func (a *vaultAccount) access(secret structs.Secret) vault.Access {
	return vault.Access{Token: secret, Namespace: a.task.Vault.Namespace}
}

// Login implements Account.
func (a *vaultAccount) Login(ctx context.Context) (*Token, error) {
	jwt, err := awaitIdentity(ctx, a.env, access.WantedIdentity{
		Kind:     access.IdentityOfTask,
		Workload: a.task.Name,
		Name:     structs.VaultIdentity,
	})
	if err != nil {
		return nil, err
	}

	role := a.task.Vault.Role
	if role == "" {
		role = a.cfg.VaultSettings.CreateFromRole
	}
	return ofVault(a.cfg.Vault.Login(ctx, a.task.Vault.Namespace, role, jwt))
}

// Check implements Account.
func (a *vaultAccount) Check(ctx context.Context, secret structs.Secret) (*Token, error) {
	return ofVault(a.cfg.Vault.LookupSelf(ctx, a.access(secret)))
}

// Renew implements Account.
func (a *vaultAccount) Renew(ctx context.Context, secret structs.Secret) (*Token, error) {
	return ofVault(a.cfg.Vault.RenewSelf(ctx, a.access(secret)))
}

// Revoke implements Account.
func (a *vaultAccount) Revoke(ctx context.Context, secret structs.Secret) error {
	return a.cfg.Vault.RevokeSelf(ctx, a.access(secret))
}

func ofVault(t *vault.Token, err error) (*Token, error) {
	if err != nil {
		return nil, err
	}
	return &Token{Secret: t.Secret, TTL: t.TTL, Renewable: t.Renewable}, nil
}
