// Package sharing makes equal parts of rows share memory. The tables call its functions when a row is put or
// loaded. The row itself belongs to the table, but a value that it refers to may belong to another row. So
// the functions replace such a value and never change it.
package sharing

import (
	"slices"

	"berth/internal/mvcc"
	"berth/structs"
)

// Claim shares the texts of a claim.
func Claim(c, _ *structs.CSIClaim) {
	mvcc.InternTexts(
		&c.Namespace,
		&c.VolumeID,
		&c.NodeID,
		&c.AllocID,
		&c.PluginID,
		&c.JobID,
		&c.TaskGroup,
		&c.Mode,
		&c.State,
		(*string)(&c.AccessMode),
		(*string)(&c.AttachmentMode),
	)
}

// Instance shares the texts of a plugin instance, its report on the controller, and its topology.
func Instance(i, _ *structs.CSIPluginInstance) {
	mvcc.InternTexts(
		&i.PluginID,
		&i.NodeID,
		&i.AllocID,
		&i.Provider,
		&i.ProviderVersion,
		&i.FormerProvider,
		&i.HealthDescription,
		(*string)(&i.Kind),
	)
	i.ControllerInfo = mvcc.InternValue(i.ControllerInfo)
	if i.NodeInfo != nil {
		// The report may belong to the former row.
		own := *i.NodeInfo
		own.AccessibleTopology = mvcc.InternValue(own.AccessibleTopology)
		i.NodeInfo = &own
	}
}

// Volume shares the texts and the options of a volume, and none of its secrets.
func Volume(v, _ *structs.CSIVolume) {
	mvcc.InternTexts(&v.Namespace, &v.PluginID, &v.State)

	// The texts are equal, and after this they are one in memory.
	if v.Name == v.ID {
		v.Name = v.ID
	}

	v.Parameters = *mvcc.InternValue(&v.Parameters)
	v.Context = *mvcc.InternValue(&v.Context)
	v.MountOptions = mvcc.InternValue(v.MountOptions)
	v.Topologies = *mvcc.InternValue(&v.Topologies)
	v.RequestedCapabilities = *mvcc.InternValue(&v.RequestedCapabilities)
	v.RequestedTopologies = mvcc.InternValue(v.RequestedTopologies)
}

// Node shares the texts of a node, and of a new row also the report and the events.
func Node(n, before *structs.Node) {
	mvcc.InternTexts(
		&n.ID,
		&n.Name,
		&n.Datacenter,
		&n.NodeClass,
		&n.NodePool,
		&n.ComputedClass,
		&n.Status,
		&n.SchedulingEligibility,
	)

	// A changed row has the parts of the former one, and NodeRegister shares the parts of a new report.
	if before != nil {
		return
	}

	NodeReport(n)
	n.Events = slices.Clone(n.Events)
	for i, e := range n.Events {
		n.Events[i] = NodeEvent(e)
	}
}

// NodeReport shares the parts of a node's report on itself. No two nodes have equal attributes, because one
// of these is the name of the node.
func NodeReport(n *structs.Node) {
	// So the texts are shared and not the map.
	n.Attributes = mvcc.InternMap(n.Attributes)
	n.Meta = *mvcc.InternValue(&n.Meta)
	n.NodeResources = ownResources(n.NodeResources)
	n.ReservedResources = mvcc.InternValue(n.ReservedResources)
	n.Drivers = *mvcc.InternValue(&n.Drivers)
	n.HostVolumes = *mvcc.InternValue(&n.HostVolumes)
}

// ownResources shares the resources of a node without its networks: each node has its own addresses.
func ownResources(r *structs.NodeResources) *structs.NodeResources {
	if r == nil || len(r.NodeNetworks) == 0 {
		return mvcc.InternValue(r)
	}

	// The rest is equal on many nodes of one kind.
	bare := *r
	bare.NodeNetworks = nil
	own := *mvcc.InternValue(&bare)
	for _, link := range r.NodeNetworks {
		own.NodeNetworks = append(own.NodeNetworks, ownNetwork(link))
	}

	return &own
}

// ownNetwork returns a copy of a network with shared texts, nil for nil.
func ownNetwork(link *structs.NodeNetworkResource) *structs.NodeNetworkResource {
	if link == nil {
		return nil
	}

	c := *link
	mvcc.InternTexts(&c.Mode, &c.Device)

	// The list may be that of the former row.
	c.Addresses = slices.Clone(link.Addresses)
	for i, a := range link.Addresses {
		if a == nil {
			continue
		}

		address := *a
		mvcc.InternTexts(&address.Family, &address.Alias, &address.ReservedPorts)
		c.Addresses[i] = &address
	}

	return &c
}

// NodeEvent returns a copy of an event with shared texts, nil for nil.
func NodeEvent(e *structs.NodeEvent) *structs.NodeEvent {
	if e == nil {
		return nil
	}

	// The event may be one of a stored row, or of the payload.
	c := *e
	mvcc.InternTexts(&c.Message, &c.Subsystem)
	c.Details = mvcc.InternMap(c.Details)
	return &c
}

// Alloc shares the parts of an allocation. It also shares the parts of like, which is cheaper: it is the
// former row, or another allocation of the same plan.
func Alloc(a, like *structs.Allocation) {
	if like == nil {
		like = &structs.Allocation{}
	}

	known := allocTexts(like)
	for i, text := range allocTexts(a) {
		if *text == *known[i] {
			*text = *known[i]
		} else {
			*text = mvcc.InternText(*text)
		}
	}

	// Devices are not compared here: Equal knows only amounts.
	switch r := like.Resources; {
	case a.Resources == r:
	case a.Resources != nil && r != nil && len(a.Resources.Devices)+len(r.Devices) == 0 && r.Equal(*a.Resources):
		a.Resources = r
	default:
		a.Resources = mvcc.InternValue(a.Resources)
	}

	// The parts of a running allocation change often, and a shared value costs a search each time.
	if a.ClientTerminal() && !like.ClientTerminal() {
		shareEnded(a)
	}

	if !sameList(a.CSIVolumes, like.CSIVolumes) {
		a.CSIVolumes = *mvcc.InternValue(&a.CSIVolumes)
	}

	if !sameList(a.Ports, like.Ports) {
		a.Ports = slices.Clone(a.Ports)
		for i := range a.Ports {
			mvcc.InternTexts(&a.Ports[i].Label, &a.Ports[i].HostIP)
		}
	}
}

// allocTexts returns the texts of an allocation that rows share.
func allocTexts(a *structs.Allocation) [12]*string {
	return [...]*string{
		&a.ID,
		&a.Namespace,
		&a.EvalID,
		&a.NodeID,
		&a.NodeName,
		&a.JobID,
		&a.TaskGroup,
		&a.DesiredStatus,
		&a.ClientStatus,
		&a.DesiredDescription,
		(*string)(&a.StopCause),
		&a.ClientDescription,
	}
}

// shareEnded shares the parts that many allocations that have ended have in common. It comes once, because
// they change little after that.
func shareEnded(a *structs.Allocation) {
	mvcc.InternTexts(&a.Name)
	a.Metrics = ownMetrics(a.Metrics)
	if len(a.TaskStates) == 0 {
		return
	}

	// The map may belong to the former row.
	states := make(map[string]*structs.TaskState, len(a.TaskStates))
	for name, s := range a.TaskStates {
		states[mvcc.InternText(name)] = ownState(s)
	}

	a.TaskStates = states
}

// ownMetrics returns a copy of metrics with shared parts, nil for nil.
func ownMetrics(m *structs.AllocMetric) *structs.AllocMetric {
	if m == nil {
		return nil
	}

	c := *m
	c.NodesAvailable = ownCounts(m.NodesAvailable)
	c.ClassFiltered = ownCounts(m.ClassFiltered)
	c.ConstraintFiltered = ownCounts(m.ConstraintFiltered)
	c.ClassExhausted = ownCounts(m.ClassExhausted)
	c.DimensionExhausted = ownCounts(m.DimensionExhausted)

	// The list may be that of the former row.
	c.ScoreMetaData = slices.Clone(m.ScoreMetaData)
	for i, s := range m.ScoreMetaData {
		c.ScoreMetaData[i] = mvcc.InternValue(s)
	}

	return &c
}

// ownCounts returns the map that equal ones share, nil for nil.
func ownCounts(m map[string]int) map[string]int {
	if m == nil {
		return nil
	}
	return *mvcc.InternValue(&m)
}

// ownState returns a copy of a task's state with shared texts, nil for nil.
func ownState(s *structs.TaskState) *structs.TaskState {
	if s == nil {
		return nil
	}

	c := *s
	mvcc.InternTexts(&c.State)
	c.Events = slices.Clone(s.Events)
	for i, e := range s.Events {
		if e == nil {
			continue
		}

		// The event may belong to the former row.
		event := *e
		mvcc.InternTexts(&event.Type, &event.DisplayMessage, &event.Message)
		event.Details = mvcc.InternMap(event.Details)
		c.Events[i] = &event
	}

	return &c
}

// Eval shares the parts that the evaluations of a job, or of many jobs, have in common.
func Eval(e, _ *structs.Evaluation) {
	mvcc.InternTexts(
		&e.ID,
		&e.Namespace,
		&e.Type,
		&e.TriggeredBy,
		&e.JobID,
		&e.NodeID,
		&e.Status,
		&e.StatusDescription,
		&e.PreviousEval,
		&e.BlockedEval,
	)
	e.QueuedAllocations = ownCounts(e.QueuedAllocations)
}

// sameList reports whether two lists are in the same memory, or both are empty.
func sameList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
