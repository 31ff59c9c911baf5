package state

import (
	"cmp"

	"berth/structs"
	"berth/structs/validate"
)

// PluginConfig returns the settings of a plugin. It is never nil.
func PluginConfig(tx Reader, id string) *structs.CSIPluginSettings {
	stored := pluginConfigs.Get(tx, id)
	if stored != nil {
		return stored
	}
	return &structs.CSIPluginSettings{
		ID:         id,
		OnNodeLoss: structs.LossHold,
	}
}

// PluginConfigSet stores the settings of a plugin. It deletes the row if all are the defaults.
func PluginConfigSet(tx *WriteTx, p *structs.CSIPluginSettingsRequest) error {
	err := validate.PluginConfig(p)
	if err != nil {
		return err
	}
	config := &structs.CSIPluginSettings{
		ID:          p.ID,
		OnNodeLoss:  cmp.Or(p.OnNodeLoss, structs.LossHold),
		SecretsFrom: p.SecretsFrom,
	}
	if Plugin(tx, p.ID) != nil { // other nodes may take its volumes
		unblock(tx, structs.WakePlugin(p.ID))
	}
	if config.OnNodeLoss != structs.LossHold || config.SecretsFrom != "" {
		pluginConfigs.Put(tx, config)
		return nil
	}
	stored := pluginConfigs.Get(tx, p.ID)
	if stored != nil {
		pluginConfigs.Delete(tx, stored)
	}
	return nil
}

// checkPluginConfigs checks that each row has a setting.
func checkPluginConfigs(c *checker) {
	for p := range pluginConfigs.Scan(c) {
		c.Want(p.OnNodeLoss == structs.LossFence || p.OnNodeLoss == structs.LossLease || p.SecretsFrom != "",
			"the settings of plugin %s: on_node_loss %q", p.ID, p.OnNodeLoss)
	}
}
