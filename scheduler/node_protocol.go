package scheduler

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"berth/structs"
)

// protocolField is a field of a group that node agents know since a protocol. An older agent drops the field
// as it decodes the job, and would run the tasks without it.
type protocolField struct {
	name  string
	since int
	used  func(*structs.TaskGroup) bool
	// inPlace returns the field if its change leaves the tasks running. If it is nil, a change replaces them.
	inPlace func(*structs.TaskGroup) any
}

// protocolFields are all of them, the newest last. See structs.NodeProtocol.
var protocolFields = []protocolField{
	{"artifact", 1, anyTask(func(t *structs.Task) bool { return len(t.Artifacts) > 0 }), nil},
	{"template", 1, anyTask(func(t *structs.Task) bool { return len(t.Templates) > 0 }), nil},
	{"lifecycle", 1, (*structs.TaskGroup).HasLifecycle, nil},
	{"ephemeral_disk.sticky", 1, (*structs.TaskGroup).KeepsData, nil},
	{"device", 1, anyTask(func(t *structs.Task) bool {
		return t.Resources != nil && len(t.Resources.Devices) > 0
	}), nil},
	{"network", 1, func(g *structs.TaskGroup) bool { return len(g.Networks) > 0 }, nil},
	{"service", structs.ServicesProtocol, (*structs.TaskGroup).HasServices, servicesOf},
	{"network.mode, dns or hostname", structs.NetworksProtocol, wantsNetworkOfItsOwn, nil},
	{"service.address_mode, tagged_addresses or weights", structs.ConnectProtocol,
		(*structs.TaskGroup).HasServiceAddresses, servicesOf},
	{"connect", structs.ConnectProtocol, (*structs.TaskGroup).UsesConnect, servicesOf},
	{"a destination beside local, secrets, tmp and alloc in a task of exec", structs.RootFilesProtocol,
		anyTask((*structs.Task).HasRootFiles), nil},
	{"max_run_duration", structs.RunDurationProtocol, func(g *structs.TaskGroup) bool {
		return g.MaxRunDuration != nil
	}, func(g *structs.TaskGroup) any { return g.MaxRunDuration }},
	{"a volume of type host", 1, func(g *structs.TaskGroup) bool { return len(g.HostVolumes()) > 0 }, nil},
}

func servicesOf(g *structs.TaskGroup) any { return slices.Collect(g.AllServices()) }

func wantsNetworkOfItsOwn(g *structs.TaskGroup) bool {
	n := g.Network()
	return n.Isolated() || n != nil && !n.DNS.IsEmpty()
}

func anyTask(is func(*structs.Task) bool) func(*structs.TaskGroup) bool {
	return func(g *structs.TaskGroup) bool {
		return slices.ContainsFunc(g.Tasks, func(t *structs.Task) bool { return t != nil && is(t) })
	}
}

// newestField returns the field of a group that needs the newest agent, nil if every agent knows the group.
func newestField(g *structs.TaskGroup) *protocolField {
	var newest *protocolField
	for i := range protocolFields {
		f := &protocolFields[i]
		if f.used(g) && (newest == nil || f.since > newest.since) {
			newest = f
		}
	}
	return newest
}

// agentDropsChange reports whether the group differs from its older version, whose tasks would run on, in a
// field that the agent of the node does not know. They would run on without the change.
func (g *groupPlan) agentDropsChange(older *structs.TaskGroup, n *structs.Node) bool {
	if g.newest == nil || n.Protocol() >= g.newest.since {
		return false
	}
	return slices.ContainsFunc(protocolFields, func(f protocolField) bool {
		return f.inPlace != nil && n.Protocol() < f.since && f.used(g.group) &&
			!reflect.DeepEqual(f.inPlace(older), f.inPlace(g.group))
	})
}

// knowsFields is a group filter: the agent of the node knows every field of the group.
func knowsFields(g *groupPlan, n *structs.Node) string {
	if g.newest == nil || n.Protocol() >= g.newest.since {
		return ""
	}
	return fmt.Sprintf("the agent of the node has %s %d (version %s); %s needs %d or later: update the agent",
		structs.AttrNodeProtocol, n.Protocol(),
		structs.Cut(cmp.Or(n.Attributes["berth.version"], "unknown"), structs.MaxName),
		g.newest.name, g.newest.since)
}
