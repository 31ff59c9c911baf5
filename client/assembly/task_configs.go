package assembly

import (
	"berth/client/drivers/cgroups"
	"berth/client/drivers/executor"
	"berth/client/hooks"
	"berth/client/hooks/artifact"
	"berth/client/hooks/identities"
	"berth/client/login"
	"berth/client/mesh/connect"
	"berth/consul/lookup"
	"berth/structs"
)

func artifactConfig(p Parts) artifact.Config {
	command, _ := executor.DefaultCommand() // the drivers have it too: see manager.New
	return artifact.Config{
		Settings: p.Config.Artifact,
		Dir:      p.Config.ArtifactDir(),

		AgentPorts: p.Config.OwnPorts,

		Command:  command,
		Progress: p.Progress,
		Slots:    artifact.NodeSlots(),
		MinFree:  func() int64 { return int64(p.MovedData().MinFree) },
		Groups:   &artifact.Groups{Machine: cgroups.Detect(), Logger: p.Logger.Named("artifacts")},
	}
}

func lookupConfig(p Parts, l *logins) lookup.Config {
	c := lookup.Config{
		Servers: &lookup.Servers{
			Caller: p.Servers,
			Region: p.Config.Region,
			Node:   func() (id, secret string) { return p.NodeID, p.SecretID },
		},
		Logger: p.Logger.Named("lookup"),

		ServersBack: p.ServersBack,
	}

	if p.Consul != nil { // a nil Consul in another interface would not be nil
		c.Consul = &login.ConsulSource{Link: p.Consul, Keeper: l.cfg.Keeper}
	}

	if l.cfg.Vault != nil {
		c.Vault = login.NewVaultSource(l.cfg.Vault, l.cfg.Keeper)
	}

	return c
}

func identitiesConfig(p Parts) identities.Config {
	return identities.Config{
		Region:   p.Config.Region,
		NodeID:   p.NodeID,
		SecretID: p.SecretID,
		Servers:  p.Servers,
		DB:       p.DB,
		Logger:   p.Logger,
		Progress: p.Progress,

		ServersBack: p.ServersBack,
	}
}

func tokenConfig(p Parts) connect.TokenConfig {
	return connect.TokenConfig{
		Region:   p.Config.Region,
		NodeID:   p.NodeID,
		SecretID: p.SecretID,
		Servers:  p.Servers,
		ACLs:     p.Consul.ACLs,
		Logger:   p.Logger,
		Progress: p.Progress,

		ServersBack: p.ServersBack,
	}
}

// meshHooks returns the hooks of a task in the service mesh. Its token comes first: the
// configuration of a proxy, and the variables of a task without one, have it.
func meshHooks(p Parts, env *hooks.AllocEnv, task *structs.Task) (list []hooks.Task) {
	if p.Consul == nil {
		return nil
	}

	if h := connect.NewToken(tokenConfig(p), env, task); h != nil {
		list = append(list, h)
	}

	envoys := connect.EnvoyConfig{
		Consul:   p.Consul,
		Logger:   p.Logger,
		Progress: p.Progress,
	}

	if h := connect.NewEnvoy(envoys, env, task); h != nil {
		list = append(list, h)
	}

	if h := connect.NewNative(p.Consul, task); h != nil {
		list = append(list, h)
	}

	return list
}
