// Package autogrow has the rule by which a volume grows before it is full.
package autogrow

import "berth/structs"

// The bounds of a rule, in percent.
const (
	MinAt = 1
	MaxAt = 99
	MinBy = 1
	MaxBy = 100
)

// unit is that of the sizes which a growth asks for, in bytes. Drivers round up to larger ones by themselves.
const unit = 1 << 20

// Next returns the size in bytes to which a volume of a size grows by a rule, at most Max and, unless it is
// 0, limit. It is not above size for a volume that may not grow.
func Next(p *structs.CSIGrow, size, limit int64) int64 {
	next := size + size/100*int64(p.By) + size%100*int64(p.By)/100
	next = (next + unit - 1) / unit * unit
	next = min(next, p.Max)
	if limit > 0 {
		next = min(next, limit)
	}
	return next
}

// Fault returns why a volume does not grow although it is as full as its rule says, "" if it need not.
func Fault(v *structs.CSIVolume) string {
	if v.Grown == nil {
		return ""
	}
	return v.Grown.Fault
}
