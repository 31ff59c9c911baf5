package structs

import "slices"

// Capable reports whether the volume is made for the modes of a class. A volume that names no capability is
// made for all modes.
func (v *CSIVolume) Capable(k ClaimClass) bool {
	has := func(c *CSIVolumeCapability) bool {
		return c != nil &&
			c.AccessMode == k.AccessMode &&
			c.AttachmentMode == k.AttachmentMode
	}
	return len(v.RequestedCapabilities) == 0 ||
		slices.ContainsFunc(v.RequestedCapabilities, has)
}
