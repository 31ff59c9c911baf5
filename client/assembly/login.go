package assembly

import (
	"context"
	"sync"

	"berth/client/hooks"
	"berth/client/login"
	"berth/consul/lookup"
	"berth/structs"
	"berth/vault"
)

// logins are the parts that log workloads in at Vault and Consul.
type logins struct {
	cfg         login.Config
	fingerprint *login.Fingerprint
	lookups     *lookup.Pool // it asks with the tokens of logins
}

func buildLogins(p Parts) (*logins, error) {
	l := &logins{cfg: login.Config{
		Keeper:        login.NewKeeper(p.Logger),
		Logger:        p.Logger,
		Progress:      p.Progress,
		Report:        p.Report,
		VaultSettings: p.Config.Vault,
	}}

	if p.Config.Vault.Enabled {
		client, err := vault.New(p.Config.Vault)
		if err != nil {
			return nil, err
		}
		l.cfg.Vault = client
	}

	if p.Consul != nil { // a nil Consul in another interface would not be nil
		l.cfg.Consul = p.Consul
	}

	l.fingerprint = login.NewFingerprint(l.cfg.Vault, p.Logger)
	l.lookups = lookup.New(lookupConfig(p, l))
	return l, nil
}

// run works until ctx ends, and returns after all that it has started.
func (l *logins) run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { l.lookups.Run(ctx) })
	parts.Go(func() { l.cfg.Keeper.Run(ctx) })
	parts.Go(func() { l.fingerprint.Run(ctx) })
	parts.Wait()
}

// hooks returns the hooks of a task for its tokens, before its templates read with them.
func (l *logins) hooks(env *hooks.AllocEnv, task *structs.Task) (list []hooks.Task) {
	if h := login.NewVault(l.cfg, env, task); h != nil {
		list = append(list, h)
	}

	if h := login.NewConsul(l.cfg, env, task); h != nil {
		list = append(list, h)
	}
	return list
}
