package validate

import (
	"time"

	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

// checkPluginSettings checks the settings of a plugin for its calls, for drift and for inline volumes.
func checkPluginSettings(f field.Errors, p *storage.PluginSettingsRequest) {
	checkPluginCalls(f, &p.PluginCalls)
	checkPluginDrift(f, &p.PluginDrift)
	switch p.Inline {
	case "", storage.InlineAllow, storage.InlineDeny:
	default:
		f.Addf("inline %.40q is unknown; one of %s, %s", p.Inline, storage.InlineAllow, storage.InlineDeny)
	}
}

// checkPluginCalls checks the settings for the calls of a plugin. 0 is the default of each.
func checkPluginCalls(f field.Errors, c *storage.PluginCalls) {
	if c.CallsInFlight != 0 {
		f.CheckRange("calls_in_flight", c.CallsInFlight, field.Between(1, storage.MaxCallsInFlight))
	}

	checkCallTimeout(f, "call_timeout", c.CallTimeout)
	checkCallTimeout(f, "controller_timeout", c.ControllerTimeout)
	checkCallTimeout(f, "node_timeout", c.NodeTimeout)
}

// checkCallTimeout checks a timeout of calls. A longer call could take effect after the servers have made the
// next call for the volume elsewhere.
func checkCallTimeout(f field.Errors, name string, d time.Duration) {
	f.Require(d == 0 || d >= storage.MinCallTimeout && d <= storage.MaxCallTimeout,
		"%s %s must be %s to %s: a call without an answer counts as settled %s after it was sent, "+
			"and it must have ended before", name, d,
		storage.MinCallTimeout, storage.MaxCallTimeout, structs.CallSettles)
}

// checkPluginDrift checks the settings for the comparison of volumes with the storage.
func checkPluginDrift(f field.Errors, d *storage.PluginDrift) {
	switch d.Drift {
	case "", storage.DriftReport, storage.DriftRepair, storage.DriftOff:
	default:
		f.Addf("drift %.40q is unknown; one of %s, %s, %s",
			d.Drift, storage.DriftReport, storage.DriftRepair, storage.DriftOff)
	}
	every := d.Interval()
	f.Require(every >= storage.MinDriftInterval && every <= storage.MaxDriftInterval,
		"drift_interval %s must be %s to %s", every, storage.MinDriftInterval, storage.MaxDriftInterval)
}
