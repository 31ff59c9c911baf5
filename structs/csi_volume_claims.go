package structs

import "slices"

// Capable reports whether the volume is made for the modes of a class. One that names no capability is made
// for all.
func (v *CSIVolume) Capable(k ClaimClass) bool {
	return len(v.RequestedCapabilities) == 0 || slices.ContainsFunc(v.RequestedCapabilities,
		func(c *CSIVolumeCapability) bool {
			return c != nil && c.AccessMode == k.AccessMode && c.AttachmentMode == k.AttachmentMode
		})
}
