package agent

import (
	"net/netip"
	"slices"

	"github.com/hashicorp/go-hclog"

	"berth/client/config"
	"berth/internal/conf"
	"berth/structs"
)

// config returns the configuration in use. The caller must not change it.
func (a *Agent) config() *Config { return a.settings.Load() }

// reread reads the configuration again and applies its live settings. An invalid configuration changes
// nothing.
func (a *Agent) reread() error {
	if a.source == nil {
		return structs.Preconditionf("this agent has no configuration to read again")
	}

	// A signal and a request may ask at once. Each then applies what it has read itself.
	a.reloading.Lock()
	defer a.reloading.Unlock()
	next, err := a.source()
	if err != nil {
		a.logger.Error("failed to reload the configuration; nothing changes", "error", err)
		return structs.Preconditionf("the configuration is invalid, and nothing changes: %w", err)
	}

	a.Reload(next)

	a.audit.Reopen()

	// The certificate is read last: its fault must not keep the settings from being applied.
	return a.reloadKeys()
}

// Reload applies the live settings of a configuration that Config.Finish has completed (see withLive). The
// log names the other settings that differ. They need a restart, and are named again at each Reload until
// then. It is not safe for concurrent use; the calls of reread take turns.
func (a *Agent) Reload(next *Config) {
	old := a.config()
	now := old.withLive(next)
	a.settings.Store(now)
	a.logger.SetLevel(hclog.LevelFromString(now.LogLevel))
	if a.client != nil {
		a.client.Reload(a.nodeSettings(now.Client))
	}

	a.logger.Info("configuration reloaded", "changed", conf.Changed(old, now))
	if pending := conf.Changed(now, next); len(pending) > 0 {
		a.logger.Warn("some changed settings take effect after a restart", "settings", pending)
	}
}

// nodeSettings returns the settings of the node of this agent. A node beside a server always uses that one.
func (a *Agent) nodeSettings(given *config.Config) *config.Config {
	// A copy, because the configuration in use is shared.
	settings := *given
	if a.server != nil {
		settings.Servers = []string{a.server.RPCAddr()}
	}
	settings.OwnPorts = append(slices.Clip(given.OwnPorts), a.chosenPorts()...)
	return &settings
}

// chosenPorts returns the ports of the agent that the kernel has chosen, in the place of 0.
func (a *Agent) chosenPorts() (ports []int) {
	configured := a.config().Ports
	add := func(configured int, bound string) {
		to, err := netip.ParseAddrPort(bound)
		if configured == 0 && err == nil {
			ports = append(ports, int(to.Port()))
		}
	}

	add(configured.HTTP, a.HTTPAddr())
	if a.server != nil {
		add(configured.RPC, a.server.RPCAddr())
		add(configured.Serf, serfAddr(a.server))
	}

	return ports
}

// withLive returns a copy with the live settings of another configuration: the log level and the settings
// of the node.
func (c *Config) withLive(next *Config) *Config {
	// A copy: readers of the former configuration keep a value that does not change.
	changed := *c
	changed.LogLevel = next.LogLevel
	if c.Client.Enabled && next.Client.Enabled { // or there is no node, or nobody has validated its settings
		changed.Client = c.Client.WithLive(next.Client)
	}
	return &changed
}
