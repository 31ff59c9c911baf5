package structs

import (
	"cmp"
	"slices"
	"strings"
)

// deviceTargets are the targets of a constraint or an affinity on devices, besides the attributes.
var deviceTargets = []string{"${device.vendor}", "${device.type}", "${device.model}", "${device.ids}"}

var deviceAttributeTarget = pattern(`^\$\{device\.attr\.[^{}\s]+\}$`)

func (r *RequestedDevice) validate(f fieldErrors) {
	parts := strings.Split(r.Name, "/")
	f.require(len(parts) <= 3 && !slices.Contains(parts, ""),
		"name %q must be type, vendor/type or vendor/type/name", r.Name)
	f.checkText("name", r.Name)
	f.require(r.Count >= 1, "count %d must be at least 1", r.Count)
	f.require(r.Count <= MaxDevices, "count %d must be at most %d", r.Count, MaxDevices)
	for i, c := range firstOf(f, "constraints", r.Constraints, MaxConstraints) {
		f.at("constraint %d", i+1).checkDeviceConstraint(c)
	}

	for i, a := range firstOf(f, "affinities", r.Affinities, MaxConstraints) {
		f := f.at("affinity %d", i+1)
		if a == nil {
			f.addf("it is null")
			continue
		}

		f.checkWeight(a)
		f.checkDeviceConstraint(a.Constraint())
	}
}

// checkDeviceConstraint checks a constraint on device groups: nothing but a group has values for its targets.
func (f fieldErrors) checkDeviceConstraint(c *Constraint) {
	if c != nil && (c.Operand == ConstraintDistinctHosts || c.Operand == ConstraintDistinctProperty) {
		f.addf("operator %q is not for devices", c.Operand)
		return
	}
	f.checkConstraint(c)
	if c == nil {
		return
	}
	for _, target := range []string{c.LTarget, c.RTarget} {
		if len(target) > MaxText || !strings.HasPrefix(target, "${") {
			continue
		}
		f.require(slices.Contains(deviceTargets, target) || deviceAttributeTarget().MatchString(target),
			"%q must be %s or ${device.attr.NAME}", target, ownText(strings.Join(deviceTargets, ", ")))
	}
}

// validateDevices checks the device groups that a node reports. The scheduler relies on their order.
func (f fieldErrors) validateDevices(groups []*NodeDeviceResource) {
	devices := 0
	bytes := 0
	before := ""
	for i, g := range firstOf(f, "device groups", groups, MaxDeviceGroups) {
		if g == nil {
			f.addf("device group %d is null", i+1)
			continue
		}

		id := g.ID()
		f.require(i == 0 || cmp.Compare(before, id) < 0,
			"device group %q: the groups must be in the order of their IDs, each once", id)
		before = id
		devices += len(g.Instances)
		bytes += g.Bytes()
		if devices <= MaxDevices && len(g.Attributes) <= MaxDeviceAttributes {
			g.validate(f.at("device group %q", id))
		}

		f.atMost("attributes of a device group", len(g.Attributes), MaxDeviceAttributes)
	}

	f.atMost("devices", devices, MaxDevices)
	f.require(bytes <= MaxDeviceBytes,
		"the texts of its device groups have %d bytes; at most %d are allowed", bytes, MaxDeviceBytes)
}

func (g *NodeDeviceResource) validate(f fieldErrors) {
	for _, part := range []string{g.Vendor, g.Type, g.Name} {
		f.require(part != "" && !strings.Contains(part, "/"),
			"%q: vendor, type and name must not be empty and must not hold a slash", part)
	}

	f.checkBytes("the name", len(g.ID()), MaxText)
	before := ""
	for i, d := range g.Instances {
		if d == nil {
			f.addf("device %d is null", i+1)
			continue
		}

		f.require(d.ID > before, "device %q: the devices must be in the order of their IDs, each once", d.ID)
		before = d.ID
		f.checkBytes("the ID of a device", len(d.ID), MaxText)
		f.checkBytes("the description of its health", len(d.HealthDescription), MaxText)
	}

	for name, a := range g.Attributes {
		f.require(a != nil && a.FitsJSON(), "attribute %q is null or no number", name)
	}
}
