package agent

import (
	"slices"

	"github.com/hashicorp/go-hclog"

	"berth/client/config"
	"berth/internal/hclconf"
)

// config returns the configuration in use. The caller must not change it.
func (a *Agent) config() *Config { return a.settings.Load() }

// Reload applies the live settings of a configuration that Config.Finish has completed: the log level and
// those of the node (config.Live). The log names the other settings that differ. They need a restart, and are
// named again at each Reload until then. It is not safe for concurrent use.
func (a *Agent) Reload(next *Config) {
	old := a.config()
	applied := []string{}
	pending := []string{}
	for _, name := range hclconf.Changed(old, next) {
		if slices.Contains(liveSettings(), name) {
			applied = append(applied, name)
		} else {
			pending = append(pending, name)
		}
	}
	a.settings.Store(old.withLive(next))
	a.logger.SetLevel(hclog.LevelFromString(next.LogLevel))
	if a.client != nil {
		a.client.Reload(a.nodeSettings(a.config().Client))
	}
	a.logger.Info("configuration reloaded", "changed", applied)
	if len(pending) > 0 {
		a.logger.Warn("some changed settings take effect after a restart", "settings", pending)
	}
}

// nodeSettings returns the settings of the node of this agent. A node beside a server always uses that one.
func (a *Agent) nodeSettings(given *config.Config) *config.Config {
	settings := *given
	if a.server != nil {
		settings.Servers = []string{a.server.RPCAddr()}
	}
	return &settings
}

// withLive returns a copy with the live settings of another configuration.
func (c *Config) withLive(next *Config) *Config {
	changed := *c
	changed.LogLevel = next.LogLevel
	if next.Client.Enabled { // or nobody has validated it
		changed.Client = c.Client.WithLive(next.Client)
	}
	return &changed
}

// liveSettings are the settings that Reload applies.
func liveSettings() []string {
	live := []string{"log_level"}
	for _, name := range config.Live {
		live = append(live, "client."+name)
	}
	return live
}
