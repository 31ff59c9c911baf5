package identities

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/client/store"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// Config has the parts of the agent that the hooks need.
type Config struct {
	Region   string
	NodeID   string
	SecretID string
	Servers  rpc.Caller
	// ServersBack, if not nil, is announced when the servers can be reached again after a cut.
	ServersBack *backoff.Recovery
	DB          *store.DB
	Logger      hclog.Logger
	// Progress receives the reason for which an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
}

// Manager renews the tokens of all allocations of a node.
type Manager struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // held while running is added to, which must not follow its Wait
	running sync.WaitGroup
}

// New returns a Manager. Its renewals end with Run.
func New(cfg Config) *Manager {
	ctx, cancel := context.WithCancel(context.Background())
	cfg.Logger = cfg.Logger.Named("identities")
	return &Manager{cfg: cfg, ctx: ctx, cancel: cancel}
}

// Run ends all renewals when ctx has ended, and waits for them.
func (m *Manager) Run(ctx context.Context) {
	<-ctx.Done()
	m.mu.Lock()
	m.cancel()
	m.mu.Unlock()
	m.running.Wait()
}

// start runs do until its ctx or the Manager's ends. It runs nothing after the end of Run.
func (m *Manager) start(do func(ctx context.Context)) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() != nil {
		return func() {}
	}

	ctx, cancel := context.WithCancel(m.ctx)
	done := make(chan struct{})
	m.running.Go(func() {
		defer close(done)
		do(ctx)
	})
	return func() {
		cancel()
		<-done
	}
}

// allocHook signs the identities of one allocation before its tasks start.
type allocHook struct {
	tokens *tokens
	stop   func() // nil: no renewals run
}

// Hook returns the hook of an allocation, and sets its Identities. It is nil if the job asks for none.
func (m *Manager) Hook(env *hooks.AllocEnv) hooks.Alloc {
	list := wanted(env)
	if len(list) == 0 {
		return nil
	}
	t := newTokens(m, env.Alloc.ID, list)
	env.Identities = t
	return &allocHook{tokens: t}
}

// Name implements hooks.Alloc.
func (*allocHook) Name() string { return "identities" }

// Up returns once all identities are signed. With tasks that run, it returns at once.
func (h *allocHook) Up(ctx context.Context, env *hooks.AllocEnv) error {
	if h.stop != nil {
		return nil
	}

	if !env.Running() {
		err := h.tokens.signFirst(ctx)
		if err != nil {
			return err
		}
	}

	h.stop = h.tokens.m.start(h.tokens.renew)
	return nil
}

// Down ends the renewals and forgets the tokens.
func (h *allocHook) Down(context.Context) error {
	if h.stop != nil {
		h.stop()
	}
	h.stop = nil
	h.tokens.forget()
	return nil
}

// want is an identity to sign, with the life of its tokens.
type want struct {
	access.WantedIdentity
	ttl time.Duration
}

// wanted lists the identities of an allocation that somebody uses.
func wanted(env *hooks.AllocEnv) (list []want) {
	add := func(kind, name string, i *structs.WorkloadIdentity) {
		list = append(list, want{
			WantedIdentity: access.WantedIdentity{
				AllocID:  env.Alloc.ID,
				Kind:     kind,
				Workload: name,
				Name:     i.Name,
			},
			ttl: i.TTL,
		})
	}

	for _, t := range env.Group.Tasks {
		for i := range structs.TaskIdentities(t) {
			if structs.AwaitsIdentity(i) {
				add(access.IdentityOfTask, t.Name, i)
			}
		}
	}

	for s := range env.Group.AllServices() {
		if s.Identity != nil {
			add(access.IdentityOfService, s.Name, s.Identity)
		}
	}

	return list
}
