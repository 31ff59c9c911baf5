package release

import (
	"fmt"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// absence says why a node is not up. It is a part of a sentence.
func absence(tx *state.ReadTx, nodeID string) string {
	if state.Node(tx, nodeID) == nil {
		return "has no row any more"
	}
	return "is down"
}

// missingRows names the rows to which claims of one volume and node refer, and which do not exist. It is a
// part of a sentence, "" if none is missing.
func missingRows(tx *state.ReadTx, rows []*structs.CSIClaim) (text string) {
	for _, c := range rows {
		if state.Alloc(tx, c.AllocID) == nil {
			text += fmt.Sprintf("; allocation %s has no row any more, so the servers run nothing of it", c.AllocID)
		}
	}

	// All claims of a volume have the plugin of the volume.
	return text + missingPlugin(tx, rows[0].PluginID)
}

// missingOf is like missingRows for a node and a plugin without a claim.
func missingOf(tx *state.ReadTx, nodeID, plugin string) string {
	text := missingPlugin(tx, plugin)
	if state.Node(tx, nodeID) == nil {
		text = fmt.Sprintf("; node %s has no row any more", nodeID) + text
	}
	return text
}

// missingPlugin is a part of a sentence, "" if the plugin has a row or the claim names none.
func missingPlugin(tx *state.ReadTx, plugin string) string {
	if plugin == "" || csi.Plugin(tx, plugin) != nil {
		return ""
	}
	return fmt.Sprintf("; plugin %s has no row any more, so nothing else confirms the release", plugin)
}
