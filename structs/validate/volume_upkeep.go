package validate

import (
	"slices"
	"time"

	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

// checkVolumeUpkeep checks the rules of a volume.
func checkVolumeUpkeep(f field.Errors, v *structs.CSIVolume) {
	checkGrow(f, v.Grow, v.RequestedCapacityMin)
	checkTrim(f, v.Trim)
	others := func(c *structs.CSIVolumeCapability) bool {
		return c == nil || c.AttachmentMode != structs.CSIBlockDevice
	}
	caps := v.RequestedCapabilities
	onlyDevices := len(caps) > 0 && !slices.ContainsFunc(caps, others)
	f.Require(!trims(v.Trim) || !onlyDevices, "trim needs a capability with attachment_mode = %q: "+
		"the user of a block device trims it", structs.CSIFileSystem)
}

// checkClassUpkeep checks the rules of a class.
func checkClassUpkeep(f field.Errors, c *storage.VolumeClass) {
	checkGrow(f, c.Grow, 0)
	checkTrim(f, c.Trim)
}

// trims reports whether a rule asks for trims.
func trims(every *time.Duration) bool { return every != nil && *every != 0 }

// checkTrim checks the time between two trims, nil and 0 for none.
func checkTrim(f field.Errors, every *time.Duration) {
	if trims(every) {
		f.Require(*every >= storage.MinTrim && *every <= storage.MaxTrim, "trim %s must be 0, or %s to %s",
			*every, storage.MinTrim, storage.MaxTrim)
	}
}

// checkGrow checks a rule, nil for none. least is the capacity in bytes that the volume is requested with.
func checkGrow(f field.Errors, p *structs.CSIGrow, least int64) {
	if p == nil {
		return
	}

	f = f.At("grow")
	f.CheckRange("at (percent)", p.At, field.Between(storage.MinGrowAt, storage.MaxGrowAt))
	f.CheckRange("by (percent)", p.By, field.Between(storage.MinGrowBy, storage.MaxGrowBy))
	f.Require(p.Max > 0, "max is required, for example \"200GiB\"")
	f.Require(p.Max <= structs.MaxVolumeBytes, "max %s is above the largest size of a volume, %s",
		structs.FormatBytes(p.Max), structs.FormatBytes(structs.MaxVolumeBytes))
	f.Require(p.Max <= 0 || p.Max >= least, "max (%s) must not be below capacity_min (%s)",
		structs.FormatBytes(p.Max), structs.FormatBytes(least))
}
