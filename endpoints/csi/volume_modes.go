package csi

import (
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// checkModes rejects a volume with an access mode that its plugin is known not to have. The claims are
// checked again: the plugin may become known later.
func (w VolumeWrites) checkModes(tx *state.ReadTx, v *structs.CSIVolume) error {
	for _, c := range v.RequestedCapabilities {
		bound := c.AccessMode == structs.CSISingleNodeMultiWriter
		if fault := csi.NoMultiWriter(tx, v.PluginID, ""); bound && fault != "" {
			return structs.Preconditionf("volume %q: %s", v.ID, fault)
		}
	}
	return nil
}
