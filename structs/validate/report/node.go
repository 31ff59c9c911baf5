package report

import (
	"cmp"
	"net/netip"
	"path/filepath"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// Node checks the numbers and sizes that a node reports of itself.
func Node(n *structs.Node) error {
	f := field.New("node %q", n.ID)
	checkTexts(f, []boundedText{
		{"ID", n.ID, structs.MaxName},
		{"Name", n.Name, structs.MaxName},
		{"Datacenter", n.Datacenter, structs.MaxName},
		{"NodeClass", n.NodeClass, structs.MaxName},
		{"NodePool", n.NodePool, structs.MaxName},
		{"SecretID", n.SecretID, structs.MaxName},
		{"HTTPAddr", n.HTTPAddr, structs.MaxName},
	})

	for name, d := range n.Drivers {
		f.Require(d != nil, "driver %q is null", name)

		// A time that JSON cannot hold would break every answer with this node.
		f.Require(d == nil || structs.TimeFitsJSON(d.UpdateTime),
			"driver %q: the year of UpdateTime must be from 0 to 9999", name)
	}

	checkResources(f.At("NodeResources"), n.NodeResources)
	checkReserved(f.At("ReservedResources"), n.ReservedResources)
	f.AtMost("host volumes", len(n.HostVolumes), structs.MaxHostVolumes)
	for name, v := range n.HostVolumes {
		checkHostVolume(f.At("host volume %q", name), v, name)
	}

	// The three have one bound: an agent may have many of one kind and few of another.
	entries := len(n.Attributes) + len(n.Meta) + len(n.Drivers)
	f.AtMost("attributes, meta entries and drivers", entries, structs.MaxNodeAttributes)

	// Every server keeps the row, in memory and in each snapshot.
	bytes := structs.PairBytes(n.Attributes) + structs.PairBytes(n.Meta) + driverBytes(n.Drivers)
	f.Require(bytes <= structs.MaxNodeBytes,
		"its attributes, meta and drivers have %d bytes; at most %d are allowed",
		bytes, structs.MaxNodeBytes)
	return f.Err()
}

// Agent checks the sizes of the proof of an agent.
func Agent(p *structs.AgentProof) error {
	f := field.New("Agent")
	checkTexts(f, []boundedText{
		{"BootID", p.BootID, structs.MaxName},
		{"Store", p.Store, structs.MaxName},
		{"Nonce", p.Nonce, structs.MaxName},
		{"Previous", p.Previous, structs.MaxName},
		{"Machine", string(p.Machine), structs.MaxName},
	})

	f.AtMost("marks", len(p.Marks), structs.MaxMarks)
	for _, m := range p.Marks {
		f.CheckBytes("Marks", len(m), structs.MaxName)
	}

	return f.Err()
}

// boundedText is a text with the name of its field and its limit in bytes.
type boundedText struct {
	name, text string
	most       int
}

func checkTexts(f field.Errors, texts []boundedText) {
	for _, t := range texts {
		f.CheckBytes(t.name, len(t.text), t.most)
	}
}

// driverBytes returns the size of all texts in the reports on drivers.
func driverBytes(m map[string]*structs.DriverInfo) (total int) {
	for name, d := range m {
		total += len(name)
		if d != nil {
			total += len(d.HealthDescription) + structs.PairBytes(d.Attributes)
		}
	}
	return total
}

// checkResources checks the resources of a node, which may report none.
func checkResources(f field.Errors, r *structs.NodeResources) {
	if r == nil {
		return
	}
	checkTotal(f, "CPU", r.CPU.CpuShares, limit{structs.MaxCPU, "MHz"})
	f.AtMost("ReservableCpuCores", len(r.CPU.ReservableCpuCores), structs.MaxNodeAttributes)
	checkTotal(f, "memory", r.Memory.MemoryMB, limit{structs.MaxMemoryMB, "MiB"})
	checkTotal(f, "disk", r.Disk.DiskMB, limit{structs.MaxDiskMB, "MiB"})
	checkDevices(f, r.Devices)
	checkNetworks(f, r)
}

// checkReserved checks what a node keeps from allocations.
func checkReserved(f field.Errors, r *structs.NodeReservedResources) {
	if r == nil {
		return
	}

	f.Require(r.CPU.CpuShares <= structs.MaxCPU, "CPU %d must be from 0 to %d MHz", r.CPU.CpuShares,
		structs.MaxCPU)
	checkTotal(f, "memory", r.Memory.MemoryMB, limit{structs.MaxMemoryMB, "MiB"})
	checkTotal(f, "disk", r.Disk.DiskMB, limit{structs.MaxDiskMB, "MiB"})
	if r.Networks != nil {
		_, err := structs.ParsePorts(r.Networks.ReservedHostPorts)
		f.Require(err == nil, "ReservedHostPorts: %v", err)
	}
}

// limit is the most of a number, with its unit.
type limit struct {
	most int64
	unit string
}

func checkTotal(f field.Errors, name string, n int64, l limit) {
	f.Require(n >= 0 && n <= l.most, "%s %d must be from 0 to %d %s", name, n, l.most, l.unit)
}

// checkNetworks checks the networks that a node reports.
func checkNetworks(f field.Errors, r *structs.NodeResources) {
	checkDynamicPorts(f, r.MinDynamicPort, r.MaxDynamicPort)
	addresses := 0
	for i, link := range field.FirstOf(f, "networks", r.NodeNetworks, structs.MaxNodeAddresses) {
		if link == nil {
			f.Addf("network %d is null", i+1)
			continue
		}

		f := f.At("network %d", i+1)
		f.Require(field.IsNetworkMode(link.Mode), "Mode %q is not a mode of networks",
			structs.Cut(link.Mode, structs.MaxQuoted))
		f.CheckBytes("Device", len(link.Device), structs.MaxName)
		f.CheckBytes("MacAddress", len(link.MacAddress), structs.MaxName)
		addresses += len(link.Addresses)

		// The rest is not read: a fault below tells that there are too many.
		if addresses > structs.MaxNodeAddresses {
			break
		}

		for _, a := range link.Addresses {
			checkAddress(f, a)
		}
	}

	f.AtMost("addresses of its networks", addresses, structs.MaxNodeAddresses)
}

// checkDynamicPorts checks the range of dynamic ports of a node. Both ends are 0 for the default.
func checkDynamicPorts(f field.Errors, low, high int) {
	if low == 0 && high == 0 {
		return
	}
	f.Require(low >= 1 && low <= high && high <= structs.MaxPort,
		"the dynamic ports are from %d to %d; expected a range within 1 to %d", low, high, structs.MaxPort)
}

// checkAddress checks an address of a node. Ports are compared by its text, so it has to have the one usual
// form.
func checkAddress(f field.Errors, a *structs.NodeNetworkAddress) {
	if a == nil {
		f.Addf("an address is null")
		return
	}

	f.CheckOneOf("Family", a.Family, []string{structs.FamilyIPv4, structs.FamilyIPv6})
	f.Require(field.IsHostNetwork(a.Alias), "alias %q is not the name of a host network", a.Alias)
	ip, err := netip.ParseAddr(a.Address)
	f.Require(err == nil && ip.Zone() == "" && ip.String() == a.Address,
		"%q is not an IP address in its usual form", a.Address)
	_, err = structs.ParsePorts(a.ReservedPorts)
	f.Require(err == nil, "ReservedPorts: %v", err)
}

// checkDevices checks the device groups that a node reports. The scheduler relies on their order.
func checkDevices(f field.Errors, groups []*structs.NodeDeviceResource) {
	devices := 0
	bytes := 0
	before := ""
	for i, g := range field.FirstOf(f, "device groups", groups, structs.MaxDeviceGroups) {
		if g == nil {
			f.Addf("device group %d is null", i+1)
			continue
		}

		id := g.ID()
		f.Require(i == 0 || cmp.Compare(before, id) < 0,
			"device group %q: the groups must be in the order of their IDs, each once", id)
		before = id
		devices += len(g.Instances)
		bytes += g.Bytes()

		// Beyond the bound the devices are only counted.
		if devices <= structs.MaxDevices && len(g.Attributes) <= structs.MaxDeviceAttributes {
			checkDeviceGroup(f.At("device group %q", id), g)
		}

		f.AtMost("attributes of a device group", len(g.Attributes), structs.MaxDeviceAttributes)
	}

	f.AtMost("devices", devices, structs.MaxDevices)
	f.Require(bytes <= structs.MaxDeviceBytes,
		"the texts of its device groups have %d bytes; at most %d are allowed", bytes, structs.MaxDeviceBytes)
}

// checkDeviceGroup checks a group of equal devices. A slash would make its ID, vendor/type/name, ambiguous.
func checkDeviceGroup(f field.Errors, g *structs.NodeDeviceResource) {
	for _, part := range []string{g.Vendor, g.Type, g.Name} {
		f.Require(part != "" && !strings.Contains(part, "/"),
			"%q: vendor, type and name must not be empty and must not hold a slash", part)
	}

	f.CheckBytes("the name", len(g.ID()), structs.MaxText)
	before := ""
	for i, d := range g.Instances {
		if d == nil {
			f.Addf("device %d is null", i+1)
			continue
		}

		f.Require(d.ID > before, "device %q: the devices must be in the order of their IDs, each once", d.ID)
		before = d.ID
		f.CheckBytes("the ID of a device", len(d.ID), structs.MaxText)
		f.CheckBytes("the description of its health", len(d.HealthDescription), structs.MaxText)
	}

	for name, a := range g.Attributes {
		f.Require(a != nil && a.FitsJSON(), "attribute %q is null or no number", name)
	}
}

// HostVolume checks the name and the path of a host volume.
func HostVolume(v *structs.HostVolume, name string) error {
	f := field.New("host_volume %q", name)
	checkHostVolume(f, v, name)
	return f.Err()
}

// checkHostVolume checks a directory that the operator of a node offers to jobs under a name.
func checkHostVolume(f field.Errors, v *structs.HostVolume, name string) {
	f.CheckName("name", name)
	if v == nil {
		f.Addf("it is null")
		return
	}
	f.CheckText("path", v.Path)
	f.Require(filepath.IsAbs(v.Path), "path %q is not absolute", v.Path)
}

// Inventory checks the numbers and sizes in the report of the volumes of the node with the given ID.
func Inventory(i *structs.NodeInventory, node string) error {
	f := field.New("node %q", node)
	checkHeld(f, "Held", i.Held)
	checkHeld(f, "Left", i.Left)
	return f.Err()
}

// checkHeld checks a list of volumes of an inventory. Recovery stores parts of it in rows of attachments.
func checkHeld(f field.Errors, list string, volumes []structs.CSIHeldClaim) {
	f.AtMost("volumes in "+list, len(volumes), structs.MaxNodeVolumes)
	f = f.At("%s", list)
	for _, h := range volumes {
		checkTexts(f, []boundedText{
			{"Namespace", h.Namespace, structs.MaxName},
			{"VolumeID", h.VolumeID, structs.MaxName},
			{"AllocID", h.AllocID, structs.MaxName},
			{"PluginID", h.PluginID, structs.MaxName},
			{"ExternalVolumeID", h.ExternalVolumeID, structs.MaxCSIID},
			{"ExternalNodeID", h.ExternalNodeID, structs.MaxCSINodeID},
			{"AccessMode", string(h.AccessMode), structs.MaxName},
			{"AttachmentMode", string(h.AttachmentMode), structs.MaxName},
		})
	}
}

// Instances checks the numbers and sizes in the report of the plugins of the node with the given ID.
func Instances(node string, instances []*structs.CSIPluginInstance) error {
	f := field.New("node %q", node)
	for _, i := range field.FirstOf(f, "plugin instances", instances, structs.MaxNodePlugins) {
		if i != nil {
			checkInstance(f.At("plugin %q", i.PluginID), &i.CSIInfo)
		}
	}
	return f.Err()
}

// checkInstance checks the texts of a plugin and of its node (CSI spec, NodeGetInfo).
func checkInstance(f field.Errors, i *structs.CSIInfo) {
	checkTexts(f, []boundedText{
		{"PluginID", i.PluginID, structs.MaxName},
		{"AllocID", i.AllocID, structs.MaxName},
		{"Provider", i.Provider, structs.MaxName},
		{"FormerProvider", i.FormerProvider, structs.MaxName},
		{"ProviderVersion", i.ProviderVersion, structs.MaxName},
		{"HealthDescription", i.HealthDescription, 2 * structs.MaxErrorText}, // an error and its subject
	})

	for _, c := range field.FirstOf(f, "EndingCalls", i.EndingCalls, structs.MaxEndingCalls) {
		if c == nil {
			f.Addf("EndingCalls: a call is empty")
			continue
		}
		checkTexts(f, []boundedText{
			{"EndingCalls.RPC", c.RPC, structs.MaxName},
			{"EndingCalls.Volume", c.Volume, structs.MaxText},
		})
	}

	// Only a node half answers these (CSI spec, NodeGetInfoResponse).
	if n := i.NodeInfo; n != nil {
		f.CheckBytes("NodeInfo.ID", len(n.ID), structs.MaxCSINodeID)
		if t := n.AccessibleTopology; t != nil {
			f.CheckCSIMap("AccessibleTopology", t.Segments)
		}
		checkStorageHealth(f, n.StorageHealth)
	}
}

// checkStorageHealth checks the texts about the storage of a plugin (CSI spec, NodeGetStorageHealth).
func checkStorageHealth(f field.Errors, s *structs.CSIStorageHealth) {
	if s == nil {
		return
	}
	for _, h := range field.FirstOf(f, "StorageHealth", s.Conditions, structs.MaxCSIHealth) {
		if h == nil {
			f.Addf("StorageHealth: a condition is empty")
			continue
		}
		checkTexts(f, []boundedText{
			{"StorageHealth.Status", h.Status, structs.MaxName},
			{"StorageHealth.Reason", h.Reason, structs.MaxText},
			{"StorageHealth.Message", h.Message, structs.MaxText},
		})
	}
}
