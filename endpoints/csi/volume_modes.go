package csi

import (
	"berth/internal/level"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// modesLevel is the level of servers that know the modes single-node-single-writer and
// single-node-multi-writer of a CSI volume.
const modesLevel = 2

// checkModes rejects a volume with an access mode that a server of the cluster does not know, or that its
// plugin is known not to have. The claims are checked again: the plugin may become known later.
func (w VolumeWrites) checkModes(tx *state.ReadTx, v *structs.CSIVolume) error {
	for _, c := range v.RequestedCapabilities {
		bound := c.AccessMode == structs.CSISingleNodeMultiWriter
		if (bound || c.AccessMode == structs.CSISingleNodeSingleWriter) && w.Level() < modesLevel {
			return level.Missing("access_mode "+string(c.AccessMode), modesLevel, w.Level())
		}

		if fault := csi.NoMultiWriter(tx, v.PluginID, ""); bound && fault != "" {
			return structs.Preconditionf("volume %q: %s", v.ID, fault)
		}
	}
	return nil
}
