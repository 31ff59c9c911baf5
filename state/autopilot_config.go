package state

import (
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// AutopilotConfig returns the configuration of autopilot: the stored one, or else the default. It is never
// nil.
func AutopilotConfig(tx Reader) *cluster.AutopilotConfig {
	stored := schema.AutopilotConfig.Get(tx, schema.OnlyAutopilotConfig)
	if stored != nil {
		return stored
	}
	config := cluster.DefaultAutopilotConfig()
	return &config
}

// AutopilotConfigSet stores the configuration of autopilot. A MostVoters of 0 keeps the stored one. The error
// is of kind conflict if the request demands another version than the stored one.
func AutopilotConfigSet(tx *WriteTx, p *cluster.AutopilotConfigRequest) error {
	config := p.Config
	err := validate.AutopilotConfig(&config)
	if err != nil {
		return err
	}
	stored := AutopilotConfig(tx)
	if p.CAS && config.ModifyIndex != stored.ModifyIndex {
		return structs.Conflictf("the configuration of autopilot has index %d, not %d",
			stored.ModifyIndex, config.ModifyIndex)
	}
	if config.MostVoters == 0 {
		config.MostVoters = stored.MostVoters
	}
	schema.AutopilotConfig.Put(tx, &config)
	return nil
}
