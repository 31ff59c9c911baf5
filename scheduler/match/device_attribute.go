package match

import (
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/semver"
)

// deviceConstraint is a constraint on device groups.
type deviceConstraint struct {
	left, right deviceTarget
	operand     string
	onTexts     func(l, r value) bool    // the operand on texts; nil: it has none
	text        *structs.DeviceAttribute // the right side as a text; nil: it is a target
	ids         []string                 // the devices that it allows; nil: it is not about their IDs
}

// deviceTarget reads one side of a constraint from a group.
type deviceTarget func(*structs.NodeDeviceResource) *structs.DeviceAttribute

// deviceIDs is the target that has the IDs of the healthy devices of a group.
const deviceIDs = "${device.ids}"

// compileDevice compiles a constraint or an affinity. A target is ${device.vendor}, ${device.type},
// ${device.model}, ${device.ids}, ${device.attr.NAME}, or a value with or without a unit.
func compileDevice(left, operand, right string) deviceConstraint {
	c := deviceConstraint{
		left:    deviceTargetOf(left),
		right:   deviceTargetOf(right),
		operand: operand,
	}
	if holds := operands[operand]; holds != nil {
		c.onTexts = memoize(holds)
	}
	if !strings.HasPrefix(right, "${") {
		// The right side is parsed as a number if it looks like one. An attribute of the node may be a text
		// all the same.
		c.text = structs.TextAttribute(right)
	}

	// Such a constraint chooses devices within a group. The others accept or reject the whole group.
	if left == deviceIDs && slices.Contains(choosesIDs, operand) {
		c.ids = splitList(value{right, true})
	}
	return c
}

// choosesIDs are the operands with which a constraint on ${device.ids} lists the devices that it allows.
var choosesIDs = []string{
	"=", "==", "is",
	structs.ConstraintSetContains,
	structs.ConstraintSetContainsAll,
	structs.ConstraintSetContainsAny,
}

// deviceTargetOf returns nil values for a property that groups do not have.
func deviceTargetOf(s string) deviceTarget {
	name, isTarget := strings.CutPrefix(s, "${device.")
	name, closed := strings.CutSuffix(name, "}")
	if !isTarget || !closed {
		// A value is parsed once, and compared with each group.
		value := structs.ParseDeviceAttribute(s)
		return func(*structs.NodeDeviceResource) *structs.DeviceAttribute { return value }
	}

	attr, isAttr := strings.CutPrefix(name, "attr.")
	return func(g *structs.NodeDeviceResource) *structs.DeviceAttribute {
		switch {
		case isAttr:
			return g.Attributes[attr]
		case name == "vendor":
			return structs.TextAttribute(g.Vendor)
		case name == "type":
			return structs.TextAttribute(g.Type)
		case name == "model":
			return structs.TextAttribute(g.Name)
		case name == "ids":
			return structs.TextAttribute(strings.Join(g.Healthy(), ","))
		}
		return nil
	}
}

// metBy reports whether the constraint holds for a group.
func (c deviceConstraint) metBy(g *structs.NodeDeviceResource) bool {
	l := c.left(g)
	r := c.right(g)

	// Units of one base are converted. Values of different kinds do not compare.
	sign, compares := structs.CompareDeviceAttributes(l, r)
	switch c.operand {
	// Flags have no order. Without a comparison none of these holds.
	case "<", "<=", ">", ">=":
		return compares && l.Bool == nil && semver.SignFits(c.operand, sign)
	}

	if !compares && l != nil && l.String != nil {
		sign, compares = structs.CompareDeviceAttributes(l, c.text) // a text may look like a number
	}

	switch c.operand {
	case "=", "==", "is":
		return compares && sign == 0
	case "!=", "not":
		// A value that one side lacks differs from the other side's.
		oneMissing := (l == nil) != (r == nil)
		return oneMissing || compares && sign != 0
	}

	return c.onTexts != nil && c.onTexts(attributeValue(l), attributeValue(r))
}

// attributeValue returns a value as the operands on texts take it.
func attributeValue(a *structs.DeviceAttribute) value {
	return value{a.Text(), a != nil}
}
