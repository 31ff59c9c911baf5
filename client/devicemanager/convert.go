package devicemanager

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"berth/plugins/protocol/device"
	"berth/plugins/protocol/shared"
	"berth/structs"
)

// Bounds of what a plugin may report. Each report is stored by the servers and read by the scheduler.
const (
	maxGroups     = 64
	maxInstances  = 1024 // of all groups
	maxAttributes = 128  // of a group
	maxText       = 512  // bytes of a name, a value or a health description
	maxMounts     = 128  // of a reservation
	maxStats      = 1024 // statistics of a device
)

// groupsOf converts a fingerprint. It refuses one that is out of bounds or ambiguous.
func groupsOf(answer *device.FingerprintResponse) ([]*structs.NodeDeviceResource, error) {
	if n := len(answer.GetDeviceGroup()); n > maxGroups {
		return nil, structs.Invalidf("the plugin reports %d device groups: at most %d are allowed", n, maxGroups)
	}
	var groups []*structs.NodeDeviceResource
	total := 0
	for _, g := range answer.GetDeviceGroup() {
		group, err := groupOf(g)
		if err != nil {
			return nil, err
		}
		same := func(h *structs.NodeDeviceResource) bool { return h.ID() == group.ID() }
		if slices.ContainsFunc(groups, same) {
			return nil, structs.Invalidf("the plugin reports the device group %s twice", group.ID())
		}
		total += len(group.Instances)
		if total > maxInstances {
			return nil, structs.Invalidf("the plugin reports more than %d devices", maxInstances)
		}
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b *structs.NodeDeviceResource) int { return cmp.Compare(a.ID(), b.ID()) })
	return groups, nil
}

func groupOf(g *device.DeviceGroup) (*structs.NodeDeviceResource, error) {
	group := &structs.NodeDeviceResource{
		Vendor:     g.GetVendor(),
		Type:       g.GetDeviceType(),
		Name:       g.GetDeviceName(),
		Attributes: map[string]*structs.DeviceAttribute{},
	}
	for _, part := range []string{group.Vendor, group.Type, group.Name} {
		if !isName(part) {
			return nil, structs.Invalidf("device group %q: vendor, type and name have 1 to %d bytes and no slash",
				group.ID(), maxText)
		}
	}
	if n := len(g.GetAttributes()); n > maxAttributes {
		return nil, structs.Invalidf("device group %s has %d attributes: at most %d are allowed", group.ID(), n,
			maxAttributes)
	}
	for name, a := range g.GetAttributes() {
		if len(name) > maxText || len(a.GetStringVal()) > maxText || len(a.GetUnit()) > maxText {
			return nil, structs.Invalidf("device group %s: the attribute %.40q has more than %d bytes", group.ID(),
				name, maxText)
		}
		group.Attributes[name] = attributeOf(a)
	}
	for _, d := range g.GetDevices() {
		if d.GetID() == "" || len(d.GetID()) > maxText || group.Instance(d.GetID()) != nil {
			return nil, structs.Invalidf(
				"device group %s: the ID %.40q is empty, has more than %d bytes or occurs twice",
				group.ID(), d.GetID(), maxText)
		}
		group.Instances = append(group.Instances, instanceOf(d))
	}
	slices.SortFunc(group.Instances, func(a, b *structs.NodeDevice) int { return cmp.Compare(a.ID, b.ID) })
	return group, nil
}

// isName reports whether the text can be a part of "vendor/type/name".
func isName(s string) bool { return s != "" && len(s) <= maxText && !strings.Contains(s, "/") }

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

// reservationOf converts a reservation. It refuses paths that are not absolute, because the agent mounts them
// as root.
func reservationOf(r *device.ContainerReservation) (*Reservation, error) {
	n := len(r.GetEnvs()) + len(r.GetMounts()) + len(r.GetDevices())
	if n > maxMounts {
		return nil, structs.Invalidf("the plugin reserves %d things for a task: at most %d are allowed",
			n, maxMounts)
	}
	reservation := &Reservation{Env: r.GetEnvs()}
	for _, m := range r.GetMounts() {
		mount := Mount{TaskPath: m.GetTaskPath(), HostPath: m.GetHostPath(), ReadOnly: m.GetReadOnly()}
		reservation.Mounts = append(reservation.Mounts, mount)
		if !isPath(mount.TaskPath) || !isPath(mount.HostPath) {
			return nil, structs.Invalidf("mount %q at %q: both paths must be absolute and clean", mount.HostPath,
				mount.TaskPath)
		}
	}
	for _, d := range r.GetDevices() {
		file := DeviceFile{TaskPath: d.GetTaskPath(), HostPath: d.GetHostPath(), Permissions: d.GetPermissions()}
		reservation.Devices = append(reservation.Devices, file)
		if !isPath(file.TaskPath) || !isPath(file.HostPath) || strings.Trim(file.Permissions, "rwm") != "" {
			return nil, structs.Invalidf(
				"device %q at %q: both paths must be absolute and clean, the permissions %q any of rwm",
				file.HostPath, file.TaskPath, file.Permissions)
		}
	}
	return reservation, nil
}

func isPath(p string) bool {
	return filepath.IsAbs(p) && filepath.Clean(p) == p && len(p) <= 4096 && !strings.Contains(p, "\x00")
}
