package structs

import (
	"maps"
	"slices"
)

// Validate checks the numbers and sizes that a node reports of itself.
func (n *Node) Validate() error {
	f := newFieldErrors("node %q", n.ID)
	f.checkTexts([]boundedText{
		{"ID", n.ID, MaxName},
		{"Name", n.Name, MaxName},
		{"Datacenter", n.Datacenter, MaxName},
		{"NodeClass", n.NodeClass, MaxName},
		{"NodePool", n.NodePool, MaxName},
		{"SecretID", n.SecretID, MaxName},
		{"HTTPAddr", n.HTTPAddr, MaxName},
	})

	for name, d := range n.Drivers {
		f.require(d != nil, "driver %q is null", name)
		f.require(d == nil || TimeFitsJSON(d.UpdateTime),
			"driver %q: the year of UpdateTime must be from 0 to 9999", name)
	}

	n.NodeResources.validate(f.at("NodeResources"))
	n.ReservedResources.validate(f.at("ReservedResources"))
	f.atMost("host volumes", len(n.HostVolumes), MaxHostVolumes)
	for name, v := range n.HostVolumes {
		v.validate(f.at("host volume %q", name), name)
	}

	entries := len(n.Attributes) + len(n.Meta) + len(n.Drivers)
	f.atMost("attributes, meta entries and drivers", entries, MaxNodeAttributes)
	bytes := PairBytes(n.Attributes) + PairBytes(n.Meta) + driverBytes(n.Drivers)
	f.require(bytes <= MaxNodeBytes,
		"its attributes, meta and drivers have %d bytes; at most %d are allowed",
		bytes, MaxNodeBytes)
	return f.err()
}

// boundedText is a text with the name of its field and its limit in bytes.
type boundedText struct {
	name, text string
	most       int
}

func (f fieldErrors) checkTexts(texts []boundedText) {
	for _, t := range texts {
		f.checkBytes(t.name, len(t.text), t.most)
	}
}

func driverBytes(m map[string]*DriverInfo) (total int) {
	for name, d := range m {
		total += len(name)
		if d != nil {
			total += len(d.HealthDescription) + PairBytes(d.Attributes)
		}
	}
	return total
}

func (r *NodeResources) validate(f fieldErrors) {
	if r == nil {
		return
	}
	f.checkTotal("CPU", r.CPU.CpuShares, MaxCPU, "MHz")
	f.atMost("ReservableCpuCores", len(r.CPU.ReservableCpuCores), MaxNodeAttributes)
	f.checkTotal("memory", r.Memory.MemoryMB, MaxMemoryMB, "MiB")
	f.checkTotal("disk", r.Disk.DiskMB, MaxDiskMB, "MiB")
	f.validateDevices(r.Devices)
	r.validateNetworks(f)
}

func (r *NodeReservedResources) validate(f fieldErrors) {
	if r == nil {
		return
	}
	f.require(r.CPU.CpuShares <= MaxCPU, "CPU %d must be from 0 to %d MHz", r.CPU.CpuShares, MaxCPU)
	f.checkTotal("memory", r.Memory.MemoryMB, MaxMemoryMB, "MiB")
	f.checkTotal("disk", r.Disk.DiskMB, MaxDiskMB, "MiB")
	if r.Networks != nil {
		_, err := ParsePorts(r.Networks.ReservedHostPorts)
		f.require(err == nil, "ReservedHostPorts: %v", err)
	}
}

func (f fieldErrors) checkTotal(name string, n, most int64, unit string) {
	f.require(n >= 0 && n <= most, "%s %d must be from 0 to %d %s", name, n, most, unit)
}

// Validate checks the numbers and sizes in the report of the volumes of the node with the given ID.
func (i *NodeInventory) Validate(node string) error {
	f := newFieldErrors("node %q", node)
	f.checkHeld("Held", i.Held)
	f.checkHeld("Left", i.Left)
	return f.err()
}

func (f fieldErrors) checkHeld(list string, volumes []CSIHeldClaim) {
	f.atMost("volumes in "+list, len(volumes), MaxNodeVolumes)
	f = f.at("%s", list)
	for _, h := range volumes {
		f.checkTexts([]boundedText{
			{"Namespace", h.Namespace, MaxName},
			{"VolumeID", h.VolumeID, MaxName},
			{"AllocID", h.AllocID, MaxName},
			{"PluginID", h.PluginID, MaxName},
			{"ExternalVolumeID", h.ExternalVolumeID, MaxCSIID},
			{"ExternalNodeID", h.ExternalNodeID, MaxCSINodeID},
			{"AccessMode", string(h.AccessMode), MaxName},
			{"AttachmentMode", string(h.AttachmentMode), MaxName},
		})
	}
}

// ValidateInstances checks the numbers and sizes in the report of the plugins of the node with the given ID.
func ValidateInstances(node string, instances []*CSIPluginInstance) error {
	f := newFieldErrors("node %q", node)
	for _, i := range firstOf(f, "plugin instances", instances, MaxNodePlugins) {
		if i != nil {
			i.validate(f.at("plugin %q", i.PluginID))
		}
	}
	return f.err()
}

func (i *CSIInfo) validate(f fieldErrors) {
	f.checkTexts([]boundedText{
		{"PluginID", i.PluginID, MaxName},
		{"AllocID", i.AllocID, MaxName},
		{"Provider", i.Provider, MaxName},
		{"FormerProvider", i.FormerProvider, MaxName},
		{"ProviderVersion", i.ProviderVersion, MaxName},
		{"HealthDescription", i.HealthDescription, 2 * MaxErrorText}, // an error and its subject
	})
	if n := i.NodeInfo; n != nil {
		f.checkBytes("NodeInfo.ID", len(n.ID), MaxCSINodeID)
		if t := n.AccessibleTopology; t != nil {
			f.checkCSIMap("AccessibleTopology", t.Segments)
		}
	}
}

// Validate checks the sizes in a node's answer about a volume that its plugin made, of at least the given
// bytes.
func (r *ClientCSICreateResponse) Validate(asked int64) error {
	f := newFieldErrors("the node's answer")
	f.checkSize(r.Capacity, asked)
	f.checkBytes("volume_id", len(r.ExternalID), MaxCSIID)
	f.checkContext("volume_context", r.Context)
	f.checkTopologies(r.Topologies)
	return f.err()
}

// Validate checks the size in a node's answer about a volume that was to grow to the given bytes.
func (r *ClientCSIExpandResponse) Validate(asked int64) error {
	return validateSize(r.Capacity, asked)
}

// Validate checks the size in a node's answer about a volume that was to grow to the given bytes.
func (r *ClientCSINodeExpandResponse) Validate(asked int64) error {
	return validateSize(r.Capacity, asked)
}

func validateSize(n, asked int64) error {
	f := newFieldErrors("the node's answer")
	f.checkSize(n, asked)
	return f.err()
}

// Validate checks the sizes in a node's report on a volume of the given plugin.
func (o *CSINodeExpandOutcome) Validate(plugin string) error {
	f := newFieldErrors("volume %q", o.VolumeID)
	f = f.at("plugin %q", plugin).at("NodeExpandVolume")
	f.checkTotal("the requested size", o.Bytes, MaxVolumeBytes, "bytes")
	f.checkSize(o.Capacity, o.Bytes)
	return f.err()
}

// checkSize checks the size that a plugin answered; 0 means that it is not known.
func (f fieldErrors) checkSize(n, asked int64) {
	f.checkTotal("capacity_bytes", n, MaxVolumeBytes, "bytes")
	f.require(n <= 0 || n >= asked, "capacity_bytes %s must be at least the %s requested",
		FormatBytes(n), FormatBytes(asked))
}

// Validate checks the sizes in a node's answer about a volume that its plugin attached.
func (r *ClientCSIAttachResponse) Validate() error {
	f := newFieldErrors("the node's answer")
	f.checkContext("publish_context", r.PublishContext)
	return f.err()
}

// Validate checks the sizes in a node's answer about the volumes that its plugin lists.
func (r *ClientCSIListResponse) Validate() error {
	f := newFieldErrors("the node's answer")
	f.checkBytes("next_token", len(r.NextToken), MaxCSIToken)
	for _, v := range firstOf(f, "volumes", r.Volumes, MaxCSIListed) {
		if v != nil {
			f.checkListed(v)
		}
	}
	return f.err()
}

func (f fieldErrors) checkListed(v *CSIVolumeExternalStub) {
	for _, id := range []string{v.ExternalID, v.CloneID, v.SnapshotID} {
		f.checkBytes("an ID of a volume", len(id), MaxCSIID)
	}
	f.checkBytes("the status of a volume", len(v.Status), MaxErrorText)
	f.checkContext("volume_context", v.VolumeContext)
	for _, id := range v.PublishedExternalNodeIDs {
		f.checkBytes("an ID of a node", len(id), MaxCSINodeID)
	}
}

// checkContext checks a context that a plugin answered; it may hold secrets and is not shown.
func (f fieldErrors) checkContext(name string, m map[string]string) {
	f.checkBytes(name, PairBytes(m), MaxCSIContext)
}

// CheckStates rejects states that neither an allocation nor a task has.
func (u *AllocClientUpdate) CheckStates() error {
	f := newFieldErrors("allocation %q", u.ID)
	statuses := []string{AllocPending, AllocRunning, AllocComplete, AllocFailed, AllocLost}
	if u.ClientStatus != "" {
		f.checkOneOf("ClientStatus", u.ClientStatus, statuses)
	}
	states := []string{TaskPending, TaskRunning, TaskDead}
	for _, task := range slices.Sorted(maps.Keys(u.TaskStates)) {
		state := ""
		if s := u.TaskStates[task]; s != nil {
			state = s.State
		}
		f.require(slices.Contains(states, state),
			"task %q: State %q must be %s", task, state, oneOf(states))
	}
	f.checkInstances(u.Services)
	return f.err()
}
