package assembly

import (
	"context"
	"os"

	"berth/client/config"
	"berth/client/drivers/catalog"
)

// pluginConfig returns the configuration of the external plugins. They learn the total of the processors'
// speeds if the operator sets it.
func pluginConfig(cfg *config.Config) catalog.Config {
	plugins := cfg.Plugins
	plugins.Compute = cfg.CPUTotalCompute
	return plugins
}

// openPlugins asks the external plugins of the node for their names, and ends processes of earlier
// agents whose plugins this agent does not run. A block that does not fit is an error. A program that
// does not answer shows as an undetected driver, with the reason, and is asked again.
func openPlugins(p Parts) (*catalog.Catalog, error) {
	ctx := p.Starting
	err := os.MkdirAll(p.Config.PluginSocketDir(), 0o700)
	if err != nil {
		return nil, err
	}

	external, err := catalog.Open(ctx, pluginConfig(p.Config), p.Logger)
	if err != nil {
		return nil, err
	}

	drivers := p.Config.DriverConfig()
	// A driver that the operator does not allow has no process either.
	wanted := map[string]bool{}
	for _, plugin := range external.Plugins(catalog.Driver) {
		wanted[plugin.Name] = drivers.Allows(plugin.Name)
	}

	for _, plugin := range external.Plugins(catalog.Device) {
		wanted[plugin.Name] = true
	}

	// Without this a plugin of an earlier configuration would run for ever.
	err = external.KillOthers(ctx, p.DB, func(name string) bool { return wanted[name] })
	if err != nil {
		p.Logger.Warn("failed to end plugins of an earlier agent; their processes may still run", "error", err)
	}

	return external, nil
}

// killPlugins ends the plugins whose processes would outlive the agent. It runs at the destruction of the
// node, after the agent's context has ended.
func killPlugins(p Parts, external *catalog.Catalog) error {
	none := func(string) bool { return false }
	return external.KillOthers(context.Background(), p.DB, none)
}
