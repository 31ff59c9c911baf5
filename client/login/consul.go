package login

import (
	"context"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/consul"
	"berth/consul/lookup"
	"berth/structs"
	"berth/structs/access"
)

// Consul is the part of consul.Link that the hooks need. It has the contracts.
type Consul interface {
	LogIn(ctx context.Context, service bool, jwt structs.Secret, meta map[string]string) (
		*consul.LoginToken, error)
	LookUpToken(ctx context.Context, token structs.Secret) (*consul.LoginToken, error)
	LogOut(ctx context.Context, token structs.Secret) error
	ExpectToken(serviceID string)
	PutToken(serviceID string, token structs.Secret)
	DropToken(serviceID string)
	lookup.Source
}

// NewConsul makes the hook that gives a task its token of Consul. It is nil for a task without an identity
// for Consul: its templates read with the token of the agent.
func NewConsul(cfg Config, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if !LogsInAtConsul(task) {
		return nil
	}

	h := newLogin(cfg, env, task)
	h.name = "consul_task"
	h.side = "Consul"
	h.file = driver.ConsulTokenFile
	h.mode = structs.TemplateNoop
	h.variables = func(token structs.Secret) map[string]string {
		return map[string]string{
			structs.ConsulTokenEnv:     string(token), // the name in the dialect
			structs.ConsulHTTPTokenEnv: string(token),
		}
	}

	h.subject = Subject{Key: consulKey(h.alloc, task.Name), Changed: h.changed}
	if cfg.Consul != nil {
		h.subject.Account = &consulAccount{
			cfg:      cfg,
			env:      env,
			workload: task.Name,
			identity: structs.ConsulIdentity,
		}
	}

	return h
}

// LogsInAtConsul reports whether a task has a token of Consul of its own.
func LogsInAtConsul(task *structs.Task) bool {
	return structs.FindIdentity(task, structs.ConsulIdentity) != nil
}

// consulAccount is the account of a task or a service at Consul.
type consulAccount struct {
	cfg      Config
	env      *hooks.AllocEnv
	workload string
	service  bool
	identity string
}

// Login implements Account.
func (a *consulAccount) Login(ctx context.Context) (*Token, error) {
	kind := access.IdentityOfTask
	if a.service {
		kind = access.IdentityOfService
	}

	jwt, err := awaitIdentity(ctx, a.env, access.WantedIdentity{
		Kind:     kind,
		Workload: a.workload,
		Name:     a.identity,
	})
	if err != nil {
		return nil, err
	}

	// Consul shows them in its list of tokens.
	meta := map[string]string{
		"requested_by": "berth_" + kind + "_" + a.workload,
		"alloc_id":     a.env.Alloc.ID,
		"job_id":       a.env.Alloc.JobID,
		"namespace":    a.env.Alloc.Namespace,
	}
	return ofConsul(a.cfg.Consul.LogIn(ctx, a.service, jwt, meta))
}

// Check implements Account.
func (a *consulAccount) Check(ctx context.Context, secret structs.Secret) (*Token, error) {
	return ofConsul(a.cfg.Consul.LookUpToken(ctx, secret))
}

// Renew implements Account. Consul renews no token, so the Keeper never calls it.
func (a *consulAccount) Renew(ctx context.Context, secret structs.Secret) (*Token, error) {
	return a.Check(ctx, secret)
}

// Revoke implements Account.
func (a *consulAccount) Revoke(ctx context.Context, secret structs.Secret) error {
	return a.cfg.Consul.LogOut(ctx, secret)
}

func ofConsul(t *consul.LoginToken, err error) (*Token, error) {
	if err != nil {
		return nil, err
	}
	return &Token{Secret: t.Secret, TTL: t.TTL}, nil
}
