package state

import (
	"berth/internal/mvcc"
	"berth/structs"
)

// This file declares the tables about the servers themselves.

// onlyAutopilotConfig is the key of the one row of its table.
const onlyAutopilotConfig = "config"

var autopilotConfig = mvcc.NewTable("autopilot_config", func(*structs.AutopilotConfig) Key {
	return mvcc.KeyOf(onlyAutopilotConfig)
})

var rootKeys = mvcc.NewTable("root_keys", func(k *structs.RootKey) Key {
	return mvcc.KeyOf(k.KeyID)
})
