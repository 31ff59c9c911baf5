package structs

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// unit is a multiple of a base unit.
type unit struct {
	base   string
	factor float64
}

// units has the units of the dialect. Decimal and binary sizes have one base, so that they compare.
var units = makeUnits()

func makeUnits() map[string]unit {
	all := map[string]unit{
		"MHz": {"Hz", 1e6},
		"GHz": {"Hz", 1e9},
		"mW":  {"W", 1e-3},
		"W":   {"W", 1},
		"kW":  {"W", 1e3},
		"MW":  {"W", 1e6},
		"GW":  {"W", 1e9},
	}

	for _, per := range []string{"", "/s"} {
		decimal := 1.0
		binary := 1.0
		for _, prefix := range []string{"K", "M", "G", "T", "P", "E"} {
			decimal *= 1000
			binary *= 1024
			all[prefix+"B"+per] = unit{"B" + per, decimal}
			all[prefix+"iB"+per] = unit{"B" + per, binary}
		}

		all["kB"+per] = all["KB"+per]
	}
	return all
}

// ParseDeviceAttribute reads a value as a number with an optional unit ("11 GiB"), a flag, or a text.
func ParseDeviceAttribute(s string) *DeviceAttribute {
	trimmed := strings.TrimSpace(s)
	number := trimmed
	of := ""
	if end := strings.LastIndexAny(trimmed, "0123456789.") + 1; end > 0 {
		name := strings.TrimSpace(trimmed[end:])
		if _, known := units[name]; known {
			number = strings.TrimSpace(trimmed[:end])
			of = name
		}
	}

	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return &DeviceAttribute{Int: &n, Unit: of}
	}

	n, err := strconv.ParseFloat(number, 64)
	if err == nil && IsFinite(n) {
		return &DeviceAttribute{Float: &n, Unit: of}
	}

	if b, err := strconv.ParseBool(trimmed); err == nil {
		return &DeviceAttribute{Bool: &b}
	}

	return TextAttribute(s)
}

// TextAttribute returns the value of a text.
func TextAttribute(s string) *DeviceAttribute { return &DeviceAttribute{String: &s} }

// FitsJSON reports whether JSON has a form for the value. One value without a form makes every list with it
// fail.
func (a *DeviceAttribute) FitsJSON() bool { return a.Float == nil || IsFinite(*a.Float) }

// IsFinite reports whether JSON has a form for a number.
func IsFinite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }

// Text formats a value with its unit, "" for nil and for a value of no type.
func (a *DeviceAttribute) Text() string {
	number := ""
	switch {
	case a == nil:
		return ""
	case a.String != nil:
		return *a.String
	case a.Bool != nil:
		return strconv.FormatBool(*a.Bool)
	case a.Int != nil:
		number = strconv.FormatInt(*a.Int, 10)
	case a.Float != nil:
		number = fmt.Sprint(*a.Float)
	}
	return strings.TrimSpace(number + " " + a.Unit)
}

// CompareDeviceAttributes compares two values. Numbers compare if both have units of one base or none, texts
// with texts, flags with flags. Unequal flags have no order: their sign is 1.
func CompareDeviceAttributes(a, b *DeviceAttribute) (sign int, compares bool) {
	if a == nil || b == nil {
		return 0, false
	}
	x, xIsNumber := a.number()
	y, yIsNumber := b.number()
	switch {
	case xIsNumber && yIsNumber:
		return cmp.Compare(x, y), a.base() == b.base()
	case a.String != nil && b.String != nil:
		return strings.Compare(*a.String, *b.String), true
	case a.Bool != nil && b.Bool != nil && *a.Bool == *b.Bool:
		return 0, true
	case a.Bool != nil && b.Bool != nil:
		return 1, true
	}
	return 0, false
}

// base returns the base of the unit. An unknown unit is its own base.
func (a *DeviceAttribute) base() string {
	if u, known := units[a.Unit]; known {
		return u.base
	}
	return a.Unit
}

// number returns a number in its base unit.
func (a *DeviceAttribute) number() (n float64, isNumber bool) {
	switch {
	case a.Int != nil:
		n = float64(*a.Int)
	case a.Float != nil:
		n = *a.Float
	default:
		return 0, false
	}
	if u, known := units[a.Unit]; known {
		n *= u.factor
	}
	return n, true
}
