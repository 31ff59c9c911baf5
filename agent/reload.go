package agent

import (
	"slices"

	"github.com/hashicorp/go-hclog"

	"berth/client/config"
	"berth/internal/hclconf"
)

// Reload applies the live settings of a configuration that Config.Finish has completed: the log level and
// those of the node (config.Live). The log names the other settings that differ. They need a restart. It is
// not safe for concurrent use.
func (a *Agent) Reload(next Config) {
	applied := []string{}
	pending := []string{}
	for _, name := range hclconf.Changed(&a.cfg, &next) {
		if slices.Contains(liveSettings(), name) {
			applied = append(applied, name)
		} else {
			pending = append(pending, name)
		}
	}
	a.logger.SetLevel(hclog.LevelFromString(next.LogLevel))
	a.cfg.LogLevel = next.LogLevel
	if a.client != nil {
		settings := *next.Client
		if a.server != nil {
			settings.Servers = []string{a.server.RPCAddr()}
		}
		a.client.Reload(&settings)
	}
	a.cfg.Client = a.cfg.Client.WithLive(next.Client)
	a.logger.Info("configuration reloaded", "changed", applied)
	if len(pending) > 0 {
		a.logger.Warn("some changed settings take effect after a restart", "settings", pending)
	}
}

// liveSettings are the settings that Reload applies.
func liveSettings() []string {
	live := []string{"log_level"}
	for _, name := range config.Live {
		live = append(live, "client."+name)
	}
	return live
}
