package scheduler

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"berth/structs"
)

// deviceConstraint is a constraint on device groups.
type deviceConstraint struct {
	left, right func(*structs.NodeDeviceResource) *structs.DeviceAttribute
	operand     string
}

// compileDevice compiles a constraint or an affinity. A target is ${device.vendor}, ${device.type},
// ${device.model}, ${device.ids}, ${device.attr.NAME}, or a value with or without a unit.
func compileDevice(left, operand, right string) deviceConstraint {
	return deviceConstraint{deviceTarget(left), deviceTarget(right), operand}
}

func deviceTarget(s string) func(*structs.NodeDeviceResource) *structs.DeviceAttribute {
	name, isTarget := strings.CutPrefix(s, "${device.")
	name, closed := strings.CutSuffix(name, "}")
	if !isTarget || !closed {
		value := parseAttribute(s)
		return func(*structs.NodeDeviceResource) *structs.DeviceAttribute { return value }
	}
	attr, isAttr := strings.CutPrefix(name, "attr.")
	return func(g *structs.NodeDeviceResource) *structs.DeviceAttribute {
		switch {
		case isAttr:
			return g.Attributes[attr]
		case name == "vendor":
			return textAttribute(g.Vendor)
		case name == "type":
			return textAttribute(g.Type)
		case name == "model":
			return textAttribute(g.Name)
		case name == "ids":
			return textAttribute(strings.Join(g.Healthy(), ","))
		}
		return nil
	}
}

// metBy reports whether the constraint holds for a group.
func (c deviceConstraint) metBy(g *structs.NodeDeviceResource) bool {
	l := c.left(g)
	r := c.right(g)
	sign, compares := compareAttributes(l, r)
	switch c.operand {
	case "=", "==", "is":
		return compares && sign == 0
	case "!=", "not":
		return !compares || sign != 0
	case "<", "<=", ">", ">=":
		return compares && l.Bool == nil && signFits(c.operand, sign)
	}
	holds := operands[c.operand]
	return holds != nil && holds(attributeValue(l), attributeValue(r))
}

func textAttribute(s string) *structs.DeviceAttribute {
	return &structs.DeviceAttribute{String: &s}
}

// parseAttribute reads a value as a number with an optional unit, a flag, or a text.
func parseAttribute(s string) *structs.DeviceAttribute {
	trimmed := strings.TrimSpace(s)
	number := trimmed
	unit := ""
	if end := strings.LastIndexAny(trimmed, "0123456789.") + 1; end > 0 {
		_, known := units[strings.TrimSpace(trimmed[end:])]
		if known {
			number = trimmed[:end]
			unit = strings.TrimSpace(trimmed[end:])
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return &structs.DeviceAttribute{Int: &n, Unit: unit}
	}
	if n, err := strconv.ParseFloat(number, 64); err == nil {
		return &structs.DeviceAttribute{Float: &n, Unit: unit}
	}
	if b, err := strconv.ParseBool(trimmed); err == nil {
		return &structs.DeviceAttribute{Bool: &b}
	}
	return textAttribute(s)
}

// unit is a multiple of a base unit.
type unit struct {
	base   string
	factor float64
}

// units are those of the dialect. Decimal and binary sizes have one base, so that they compare.
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
	decimal := 1.0
	binary := 1.0
	for i, prefix := range []string{"k", "M", "G", "T", "P", "E"} {
		decimal *= 1000
		binary *= 1024
		ki := prefix + "i"
		if i == 0 {
			ki = "Ki"
		}
		for _, per := range []string{"", "/s"} {
			all[prefix+"B"+per] = unit{"B" + per, decimal}
			all[ki+"B"+per] = unit{"B" + per, binary}
		}
	}
	return all
}

// compareAttributes compares two values. Numbers compare if both have units of one base or none, texts with
// texts, flags with flags.
func compareAttributes(a, b *structs.DeviceAttribute) (sign int, compares bool) {
	if a == nil || b == nil {
		return 0, false
	}
	x, xIsNumber := attributeNumber(a)
	y, yIsNumber := attributeNumber(b)
	switch {
	case xIsNumber && yIsNumber:
		return cmp.Compare(x, y), units[a.Unit].base == units[b.Unit].base
	case a.String != nil && b.String != nil:
		return strings.Compare(*a.String, *b.String), true
	case a.Bool != nil && b.Bool != nil:
		if *a.Bool == *b.Bool {
			return 0, true
		}
		return 1, true
	}
	return 0, false
}

// attributeNumber returns a number in its base unit.
func attributeNumber(a *structs.DeviceAttribute) (n float64, isNumber bool) {
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

// attributeValue returns a value as the operands on texts take it.
func attributeValue(a *structs.DeviceAttribute) value {
	switch {
	case a == nil:
		return value{}
	case a.String != nil:
		return value{*a.String, true}
	case a.Bool != nil:
		return value{strconv.FormatBool(*a.Bool), true}
	case a.Int != nil:
		return value{fmt.Sprint(*a.Int) + a.Unit, true}
	case a.Float != nil:
		return value{fmt.Sprint(*a.Float) + a.Unit, true}
	}
	return value{}
}
