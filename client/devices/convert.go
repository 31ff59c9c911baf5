package devices

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"berth/client/drivers/protocol/device"
	"berth/client/drivers/protocol/shared"
	"berth/structs"
)

// Bounds of a plugin's reports. The servers store the report of a node, and reject one beyond their own
// bounds: the node would be lost for the sake of one plugin.
const (
	maxText   = 512      // bytes of a name, a value or a health description
	maxMounts = 128      // mounts, device files and variables of a reservation
	maxValue  = 64 << 10 // bytes of the value of a variable
	maxStats  = 1024     // statistics of a device
)

// groupsOf converts a fingerprint. It rejects one that is out of bounds or ambiguous.
func groupsOf(answer *device.FingerprintResponse) ([]*structs.NodeDeviceResource, error) {
	if n := len(answer.GetDeviceGroup()); n > structs.MaxDeviceGroups {
		return nil, structs.Invalidf("the plugin reports %d device groups: at most %d are allowed", n,
			structs.MaxDeviceGroups)
	}

	var groups []*structs.NodeDeviceResource
	total := 0
	for _, g := range answer.GetDeviceGroup() {
		group, err := groupOf(g)
		if err != nil {
			return nil, err
		}

		// Jobs and the servers know a group by its ID, so an ID has one group.
		same := func(h *structs.NodeDeviceResource) bool { return h.ID() == group.ID() }
		if slices.ContainsFunc(groups, same) {
			return nil, structs.Invalidf("the plugin reports the device group %s twice", group.ID())
		}

		total += len(group.Instances)
		if total > structs.MaxDevices {
			return nil, structs.Invalidf("the plugin reports more than %d devices", structs.MaxDevices)
		}

		groups = append(groups, group)
	}

	// Sorted, a report with another order is no other report.
	slices.SortFunc(groups, func(a, b *structs.NodeDeviceResource) int { return cmp.Compare(a.ID(), b.ID()) })
	return groups, nil
}

// groupOf converts a group. Its errors name the group.
func groupOf(g *device.DeviceGroup) (*structs.NodeDeviceResource, error) {
	group := &structs.NodeDeviceResource{
		Vendor: g.GetVendor(),
		Type:   g.GetDeviceType(),
		Name:   g.GetDeviceName(),
	}

	// Slashes separate the parts of the ID.
	for _, part := range []string{group.Vendor, group.Type, group.Name} {
		if !isName(part) {
			return nil, structs.Invalidf("device group %q: vendor, type and name have 1 to %d bytes and no slash",
				group.ID(), maxText)
		}
	}

	var err error
	group.Attributes, err = attributesOf(g.GetAttributes())
	if err == nil {
		group.Instances, err = instancesOf(g.GetDevices())
	}
	if err != nil {
		return nil, structs.Invalidf("device group %s: %w", group.ID(), err)
	}

	return group, nil
}

// attributesOf converts the attributes of a group, within the bounds of the servers.
func attributesOf(all map[string]*shared.Attribute) (map[string]*structs.DeviceAttribute, error) {
	if n := len(all); n > structs.MaxDeviceAttributes {
		return nil, fmt.Errorf("%d attributes: at most %d are allowed", n, structs.MaxDeviceAttributes)
	}
	attributes := map[string]*structs.DeviceAttribute{}
	for name, a := range all {
		if len(name) > maxText || len(a.GetStringVal()) > maxText || len(a.GetUnit()) > maxText {
			return nil, fmt.Errorf("the attribute %.40q has more than %d bytes", name, maxText)
		}
		// JSON, in which clients get the node, has no infinite number.
		if !structs.IsFinite(a.GetFloatVal()) {
			return nil, fmt.Errorf("the attribute %.40q is no number", name)
		}
		attributes[name] = attributeOf(a)
	}
	return attributes, nil
}

// instancesOf converts the devices of a group. Two with one ID would be given to two tasks as one.
func instancesOf(all []*device.DetectedDevice) ([]*structs.NodeDevice, error) {
	if n := len(all); n > structs.MaxDevices {
		return nil, fmt.Errorf("%d devices: at most %d are allowed", n, structs.MaxDevices)
	}
	var instances []*structs.NodeDevice
	seen := map[string]bool{}
	for _, d := range all {
		id := d.GetID()
		if id == "" || len(id) > maxText || seen[id] {
			return nil, fmt.Errorf("the ID %.40q is empty, has more than %d bytes or occurs twice",
				id, maxText)
		}
		seen[id] = true
		instances = append(instances, instanceOf(d))
	}
	// As with groups, another order is no other report.
	slices.SortFunc(instances, func(a, b *structs.NodeDevice) int { return cmp.Compare(a.ID, b.ID) })
	return instances, nil
}

// isName reports whether the text can be a part of "vendor/type/name".
func isName(s string) bool { return s != "" && len(s) <= maxText && !strings.Contains(s, "/") }

// instanceOf converts a device. It cuts long texts, which decide nothing.
func instanceOf(d *device.DetectedDevice) *structs.NodeDevice {
	instance := &structs.NodeDevice{
		ID:                d.GetID(),
		Healthy:           d.GetHealthy(),
		HealthDescription: structs.Cut(d.GetHealthDescription(), maxText),
	}
	if at := d.GetHwLocality(); at != nil {
		instance.Locality = &structs.NodeDeviceLocality{PciBusID: structs.Cut(at.GetPciBusId(), maxText)}
	}
	return instance
}

// attributeOf converts an attribute. One of a kind of value that this agent does not know has no value.
func attributeOf(a *shared.Attribute) *structs.DeviceAttribute {
	attribute := &structs.DeviceAttribute{Unit: a.GetUnit()}
	switch v := a.GetValue().(type) {
	case *shared.Attribute_FloatVal:
		attribute.Float = &v.FloatVal
	case *shared.Attribute_IntVal:
		attribute.Int = &v.IntVal
	case *shared.Attribute_StringVal:
		attribute.String = &v.StringVal
	case *shared.Attribute_BoolVal:
		attribute.Bool = &v.BoolVal
	}
	return attribute
}

// reservationOf converts a reservation. It rejects paths that are not absolute, because the agent mounts them
// as root.
func reservationOf(r *device.ContainerReservation) (*Reservation, error) {
	n := len(r.GetEnvs()) + len(r.GetMounts()) + len(r.GetDevices())
	if n > maxMounts {
		return nil, structs.Invalidf("the plugin reserves %d things for a task: at most %d are allowed", n,
			maxMounts)
	}

	for name, value := range r.GetEnvs() {
		if !isVariable(name, value) {
			return nil, structs.Invalidf("the plugin sets a variable %.40q that no process can have", name)
		}
	}

	reservation := &Reservation{Env: r.GetEnvs()}
	for _, m := range r.GetMounts() {
		mount := Mount{TaskPath: m.GetTaskPath(), HostPath: m.GetHostPath(), ReadOnly: m.GetReadOnly()}
		reservation.Mounts = append(reservation.Mounts, mount)
		if !isPath(mount.TaskPath) || !isPath(mount.HostPath) {
			return nil, structs.Invalidf("mount %q at %q: both paths must be absolute and clean",
				mount.HostPath, mount.TaskPath)
		}
	}

	for _, d := range r.GetDevices() {
		file := DeviceFile{
			TaskPath:    d.GetTaskPath(),
			HostPath:    d.GetHostPath(),
			Permissions: d.GetPermissions(),
		}

		reservation.Devices = append(reservation.Devices, file)
		if !isPath(file.TaskPath) || !isPath(file.HostPath) || strings.Trim(file.Permissions, "rwm") != "" {
			return nil, structs.Invalidf(
				"device %q at %q: both paths must be absolute and clean, the permissions %q any of rwm",
				file.HostPath, file.TaskPath, file.Permissions)
		}
	}

	return reservation, nil
}

// isVariable reports whether a process can have a variable. A name with = would be another one, and NUL ends
// a text.
func isVariable(name, value string) bool {
	return name != "" && len(name) <= maxText && len(value) <= maxValue &&
		!strings.ContainsAny(name, "=\x00") && !strings.Contains(value, "\x00")
}

// isPath reports whether a text is an absolute path without "..". 4,096 bytes is the bound of the kernel.
func isPath(p string) bool {
	return filepath.IsAbs(p) && filepath.Clean(p) == p && len(p) <= 4096 && !strings.Contains(p, "\x00")
}
