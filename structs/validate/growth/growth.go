// Package growth checks the rules by which volumes grow.
package growth

import (
	"berth/structs"
	"berth/structs/autogrow"
	"berth/structs/validate/field"
)

// Check checks a rule, nil for none. least is the capacity in bytes that the volume is requested with.
func Check(f field.Errors, p *structs.CSIGrow, least int64) {
	if p == nil {
		return
	}

	f = f.At("grow")
	f.CheckRange("at (percent)", p.At, field.Between(autogrow.MinAt, autogrow.MaxAt))
	f.CheckRange("by (percent)", p.By, field.Between(autogrow.MinBy, autogrow.MaxBy))
	f.Require(p.Max > 0, "max is required, for example \"200GiB\"")
	f.Require(p.Max <= structs.MaxVolumeBytes, "max %s is above the largest size of a volume, %s",
		structs.FormatBytes(p.Max), structs.FormatBytes(structs.MaxVolumeBytes))
	f.Require(p.Max <= 0 || p.Max >= least, "max (%s) must not be below capacity_min (%s)",
		structs.FormatBytes(p.Max), structs.FormatBytes(least))
}
