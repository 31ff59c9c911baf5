package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"berth/structs"
)

// protocolField is a field of a group that node agents know since a protocol. An older agent drops the field
// as it decodes the job, and would run the tasks without it.
type protocolField struct {
	name  string
	since int
	used  func(*structs.TaskGroup) bool
}

// protocolFields are all of them, the newest last. See structs.NodeProtocol.
var protocolFields = []protocolField{
	{"artifact", 1, anyTask(func(t *structs.Task) bool { return len(t.Artifacts) > 0 })},
	{"template", 1, anyTask(func(t *structs.Task) bool { return len(t.Templates) > 0 })},
	{"lifecycle", 1, (*structs.TaskGroup).HasLifecycle},
	{"ephemeral_disk.sticky", 1, (*structs.TaskGroup).KeepsData},
	{"device", 1, anyTask(func(t *structs.Task) bool {
		return t.Resources != nil && len(t.Resources.Devices) > 0
	})},
	{"network", 1, func(g *structs.TaskGroup) bool { return len(g.Networks) > 0 }},
	{"service", structs.ServicesProtocol, (*structs.TaskGroup).HasServices},
	{"network.mode, dns or hostname", structs.NetworksProtocol, wantsNetworkOfItsOwn},
	{"service.address_mode, tagged_addresses or weights", structs.ConnectProtocol,
		(*structs.TaskGroup).HasServiceAddresses},
	{"connect", structs.ConnectProtocol, (*structs.TaskGroup).UsesConnect},
	{"a destination beside local, secrets, tmp and alloc in a task of exec", structs.RootFilesProtocol,
		anyTask((*structs.Task).HasRootFiles)},
	{"max_run_duration", structs.RunDurationProtocol, func(g *structs.TaskGroup) bool {
		return g.MaxRunDuration != nil
	}},
	{"a volume of type host", 1, func(g *structs.TaskGroup) bool { return len(g.HostVolumes()) > 0 }},
}

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
