package login

import (
	"context"

	"berth/client/hooks"
	"berth/consul"
	"berth/structs"
)

// services is the hook that gives the services of an allocation their tokens of Consul.
type services struct {
	cfg  Config
	env  *hooks.AllocEnv
	list []serviceLogin
}

// serviceLogin is a service with an identity.
type serviceLogin struct {
	id      string // in Consul
	subject Subject
}

// NewServices makes the hook of an allocation. It is nil without a service that has an identity: the node
// registers its services with its own token.
func NewServices(cfg Config, env *hooks.AllocEnv) hooks.Alloc {
	h := &services{cfg: cfg, env: env}
	for s := range env.Group.AllServices() {
		if s.Provider != structs.ServiceProviderConsul || s.Identity == nil {
			continue
		}

		id := consul.TaskServiceID(s.InstanceID(env.Alloc.ID, s.Owner))
		one := serviceLogin{id: id, subject: Subject{Key: "service/" + KeyOf(env.Alloc.ID, id)}}
		if cfg.Consul != nil {
			one.subject.Account = &consulAccount{
				cfg:      cfg,
				env:      env,
				workload: s.Name,
				service:  true,
				identity: s.Identity.Name,
			}
			one.subject.Changed = func(t Token) { cfg.Consul.PutToken(id, t.Secret) }
			one.subject.Failed = h.tell("service " + s.Name + " waits for its token of Consul: ")
		}
		h.list = append(h.list, one)
	}

	if len(h.list) == 0 {
		return nil
	}
	return h
}

// tell returns a function that tells each other fault of a service in the events of its allocation.
func (h *services) tell(what string) func(error) {
	var last string
	return func(err error) {
		if text := err.Error(); text != last {
			last = text
			h.cfg.Report(h.env.Alloc.ID, what+text)
		}
	}
}

// Name implements hooks.Alloc.
func (*services) Name() string { return "consul_services" }

// Up has the services registered once the logins are made. It does not wait for them: the tasks need none.
//
// An agent that starts again logs in again. Consul goes on with the former token of a registration until
// then.
func (h *services) Up(context.Context, *hooks.AllocEnv) error {
	if h.cfg.Consul == nil {
		return structs.Preconditionf("this node uses no Consul; " +
			"set consul.address in the configuration of its agent")
	}

	for _, s := range h.list {
		if h.cfg.Keeper.Has(s.subject.Key) {
			continue
		}
		h.cfg.Consul.ExpectToken(s.id)
		h.cfg.Keeper.Keep(s.subject, Token{TTL: foundTTL, found: true})
	}
	return nil
}

// Down revokes the tokens. The services are gone from the list of the node by then, and leave Consul with the
// token of the agent.
func (h *services) Down(ctx context.Context) error {
	if h.cfg.Consul == nil {
		return nil
	}

	for _, s := range h.list {
		h.cfg.Keeper.End(ctx, s.subject, "")
		h.cfg.Consul.DropToken(s.id)
	}
	return nil
}
