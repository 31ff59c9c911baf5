package validate

import (
	"time"

	"berth/structs"
	"berth/structs/pluginconf"
	"berth/structs/validate/field"
)

// checkPluginSettings checks the settings of a plugin for its calls, for drift and for inline volumes.
func checkPluginSettings(f field.Errors, p *pluginconf.PluginSettingsRequest) {
	checkPluginCalls(f, &p.PluginCalls)
	checkPluginDrift(f, &p.PluginDrift)
	switch p.Inline {
	case "", pluginconf.InlineAllow, pluginconf.InlineDeny:
	default:
		f.Addf("inline %.40q is unknown; one of %s, %s", p.Inline, pluginconf.InlineAllow, pluginconf.InlineDeny)
	}
}

// checkPluginCalls checks the settings for the calls of a plugin. 0 is the default of each.
func checkPluginCalls(f field.Errors, c *pluginconf.PluginCalls) {
	if c.CallsInFlight != 0 {
		f.CheckRange("calls_in_flight", c.CallsInFlight, field.Between(1, pluginconf.MaxCallsInFlight))
	}

	checkCallTimeout(f, "call_timeout", c.CallTimeout)
	checkCallTimeout(f, "controller_timeout", c.ControllerTimeout)
	checkCallTimeout(f, "node_timeout", c.NodeTimeout)
}

// checkCallTimeout checks a timeout of calls. A longer call could take effect after the servers have made the
// next call for the volume elsewhere.
func checkCallTimeout(f field.Errors, name string, d time.Duration) {
	f.Require(d == 0 || d >= pluginconf.MinTimeout && d <= pluginconf.MaxTimeout,
		"%s %s must be %s to %s: a call without an answer counts as settled %s after it was sent, "+
			"and it must have ended before", name, d,
		pluginconf.MinTimeout, pluginconf.MaxTimeout, structs.CallSettles)
}

// checkPluginDrift checks the settings for the comparison of volumes with the storage.
func checkPluginDrift(f field.Errors, d *pluginconf.PluginDrift) {
	switch d.Drift {
	case "", pluginconf.DriftReport, pluginconf.DriftRepair, pluginconf.DriftOff:
	default:
		f.Addf("drift %.40q is unknown; one of %s, %s, %s",
			d.Drift, pluginconf.DriftReport, pluginconf.DriftRepair, pluginconf.DriftOff)
	}
	every := d.Interval()
	f.Require(every >= pluginconf.MinDriftInterval && every <= pluginconf.MaxDriftInterval,
		"drift_interval %s must be %s to %s", every, pluginconf.MinDriftInterval, pluginconf.MaxDriftInterval)
}
