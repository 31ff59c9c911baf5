package csi

import (
	"cmp"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

// PluginConfigSet stores the settings of a plugin. It deletes the row if all are the defaults.
func PluginConfigSet(tx *mvcc.WriteTx, p *storage.PluginSettingsRequest) error {
	err := validate.PluginConfig(p)
	if err != nil {
		return err
	}

	config := &storage.PluginSettings{
		ID:          p.ID,
		OnNodeLoss:  cmp.Or(p.OnNodeLoss, structs.LossHold),
		SecretsFrom: p.SecretsFrom,
		PluginCalls: p.PluginCalls,
		PluginDrift: p.PluginDrift,
		Inline:      p.Inline,
	}

	if config.Drift == storage.DriftReport {
		config.Drift = ""
	}
	if !config.AllowsInline() {
		config.Inline = ""
	}

	if Plugin(tx, p.ID) != nil { // other nodes may take its volumes
		unblock.Key(tx, structs.WakePlugin(p.ID))
	}

	if !config.AreDefaults() {
		schema.PluginConfigs.Put(tx, config)
		return nil
	}

	// Settings that are all defaults need no row.
	stored := schema.PluginConfigs.Get(tx, p.ID)
	if stored != nil {
		schema.PluginConfigs.Delete(tx, stored)
	}

	return nil
}
