package structs

import "slices"

// Capable reports whether the volume is made for the modes: one that names no capability is made for all.
func (v *CSIVolume) Capable(access CSIAccessMode, attachment CSIAttachmentMode) bool {
	return len(v.RequestedCapabilities) == 0 || slices.ContainsFunc(v.RequestedCapabilities,
		func(c *CSIVolumeCapability) bool {
			return c != nil && c.AccessMode == access && c.AttachmentMode == attachment
		})
}
