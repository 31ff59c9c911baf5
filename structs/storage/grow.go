package storage

import "berth/structs"

// The bounds of a rule, in percent.
const (
	MinGrowAt = 1
	MaxGrowAt = 99
	MinGrowBy = 1
	MaxGrowBy = 100
)

// growUnit is the unit of the sizes which a growth asks for, in bytes. Drivers round up to larger ones by
// themselves.
const growUnit = 1 << 20

// GrownSize returns the size in bytes to which a volume of a size grows by a rule, at most Max and, unless it
// is 0, limit. It is not above size for a volume that may not grow.
func GrownSize(p *structs.CSIGrow, size, limit int64) int64 {
	next := size + size/100*int64(p.By) + size%100*int64(p.By)/100
	next = (next + growUnit - 1) / growUnit * growUnit
	next = min(next, p.Max)
	if limit > 0 {
		next = min(next, limit)
	}
	return next
}

// GrowFault returns why a volume does not grow although it is as full as its rule says, "" if it need not.
func GrowFault(v *structs.CSIVolume) string {
	if v.Grown == nil {
		return ""
	}
	return v.Grown.Fault
}
