package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// The subsystems of the events for a node's history.
const (
	subsystemDriver = "Driver"
	subsystemDevice = "Device"
	subsystemCSI    = "CSI"
)

// partHealth is the health of one driver, device or plugin instance. A missing part has the zero value.
type partHealth struct {
	there       bool
	healthy     bool
	description string
	process     string // the allocation that runs a plugin instance, the version of a driver; "" if not known
}

// part names a part of a node.
type part struct {
	subsystem string
	name      string
	of        string // the group of a device, the half of a plugin
}

// text returns the part as a message names it.
func (p part) text() string {
	switch p.subsystem {
	case subsystemDriver:
		return "driver " + p.name
	case subsystemDevice:
		return "device " + p.name + " of " + p.of
	}
	return fmt.Sprintf("plugin %s (%s)", p.name, p.of)
}

// detail returns the key and the value that name the part in the details of an event.
func (p part) detail() (key, value string) {
	switch p.subsystem {
	case subsystemDriver:
		return "driver", p.name
	case subsystemDevice:
		return "device", p.of + "/" + p.name
	}
	return "plugin", p.name
}

// nodeHealth has the rows with the health of those parts of a node that a report may change: node for its
// drivers and devices, the same before and after a report that is not about them, and plugin instances.
type nodeHealth struct {
	node      *structs.Node
	instances []*structs.CSIPluginInstance
}

// instancesOf returns the instances of a node that a report may change, by key: those of the plugins that it
// names, or all. A missing node has none.
func instancesOf(tx Reader, n *structs.Node, p *structs.NodeUpdateCSIRequest) []*structs.CSIPluginInstance {
	if n == nil {
		return nil
	}

	instances := make([]*structs.CSIPluginInstance, 0, len(n.CSIInstances()))
	for _, k := range n.CSIInstances() {
		i := csi.Instance(tx, k.PluginID, k.Kind, n.ID)
		if i != nil && reportsPlugin(p, k.PluginID) {
			instances = append(instances, i)
		}
	}
	return instances
}

// reportsPlugin reports whether a report may change the instances of a plugin.
func reportsPlugin(p *structs.NodeUpdateCSIRequest, plugin string) bool {
	return p.Full ||
		slices.ContainsFunc(p.Upserts, func(i *structs.CSIPluginInstance) bool {
			return i != nil && i.PluginID == plugin
		}) ||
		slices.ContainsFunc(p.Removes, func(k structs.CSIInstanceKey) bool { return k.PluginID == plugin })
}

// partChange is a part whose health a report has changed, with the message that says so.
type partChange struct {
	part
	message string
}

// changesBetween returns the changes that a node's history needs, in the order of events.
func changesBetween(old, now nodeHealth) []partChange {
	var all []partChange
	compare := func(p part, before, after partHealth) {
		if before == after {
			return
		}
		message := healthChange(p, before, after)
		if message != "" {
			all = append(all, partChange{p, message})
		}
	}

	for _, i := range now.instances {
		compare(instancePart(i), instanceHealth(sameHalf(old.instances, i)), instanceHealth(i))
	}
	for _, i := range old.instances {
		if sameHalf(now.instances, i) == nil {
			compare(instancePart(i), instanceHealth(i), partHealth{})
		}
	}

	if old.node != now.node {
		compareParts(partsOf(old.node), partsOf(now.node), compare)
	}

	slices.SortFunc(all, func(a, b partChange) int {
		return cmp.Or(cmp.Compare(a.subsystem, b.subsystem), cmp.Compare(a.text(), b.text()))
	})
	return all
}

// compareParts calls compare for each part that either map has.
func compareParts(old, now map[part]partHealth, compare func(p part, old, now partHealth)) {
	for p, h := range now {
		compare(p, old[p], h)
	}
	for p, h := range old {
		if _, known := now[p]; !known {
			compare(p, h, partHealth{})
		}
	}
}

func instancePart(i *structs.CSIPluginInstance) part {
	return part{subsystemCSI, i.PluginID, string(i.Kind)}
}

// sameHalf returns the one of the instances that is of the same half of the same plugin, nil for none.
func sameHalf(in []*structs.CSIPluginInstance, i *structs.CSIPluginInstance) *structs.CSIPluginInstance {
	for _, other := range in {
		if other.Key() == i.Key() {
			return other
		}
	}
	return nil
}

// instanceHealth returns the health of a plugin instance, nil for a missing one. One that is unhealthy
// because its node is down counts as healthy: it was, and the servers wrote the change, not the node.
func instanceHealth(i *structs.CSIPluginInstance) partHealth {
	if i == nil {
		return partHealth{}
	}
	return partHealth{
		there:       true,
		healthy:     i.Healthy || i.DownWithNode,
		description: i.HealthDescription,
		process:     i.AllocID,
	}
}

// partsOf returns the health of the drivers and devices of a node, nil for a missing one.
func partsOf(n *structs.Node) map[part]partHealth {
	if n == nil {
		return nil
	}

	parts := map[part]partHealth{}
	for name, d := range n.Drivers {
		parts[part{subsystemDriver, name, ""}] = partHealth{
			there:       d.Detected,
			healthy:     d.Detected && d.Healthy,
			description: d.HealthDescription,
			process:     d.Attributes["driver."+name+".version"],
		}
	}

	for _, g := range devicesOf(n) {
		for _, d := range g.Instances {
			parts[part{subsystemDevice, d.ID, g.ID()}] = partHealth{
				there:       true,
				healthy:     d.Healthy,
				description: d.HealthDescription,
			}
		}
	}

	return parts
}

// eventsBetween returns an event for each part whose health or process has changed, in the order of the
// parts. If there are more than keptEvents, the last one counts the rest.
func eventsBetween(old, now nodeHealth, at time.Time) []*structs.NodeEvent {
	var events []*structs.NodeEvent
	for _, c := range changesBetween(old, now) {
		key, value := c.detail()
		events = append(events, &structs.NodeEvent{
			Subsystem: c.subsystem,
			Message:   structs.Cut(c.message, structs.MaxText),
			Details:   map[string]string{key: structs.Cut(value, structs.MaxText)},
			Timestamp: at,
		})
	}

	if len(events) > keptEvents {
		last := *events[keptEvents-1]
		last.Message = fmt.Sprintf("%d other drivers, devices and plugins have changed", len(events)-keptEvents+1)
		last.Details = nil
		events = append(events[:keptEvents-1], &last)
	}

	return events
}

// healthChange describes the change of one part, "" if there is none that its history needs.
func healthChange(p part, old, now partHealth) string {
	switch {
	case !now.there && old.healthy:
		return withReason(p.text()+" is gone", now.description)
	case !now.there:
		return ""
	case now.healthy && !old.healthy:
		return p.text() + " is healthy"
	case !now.healthy && (old.healthy || !old.there):
		return withReason(p.text()+" is unhealthy", now.description)
	case old.process == "" || now.process == "" || old.process == now.process:
		return ""
	case p.subsystem == subsystemDriver:
		return fmt.Sprintf("%s is replaced: it is version %s instead of %s", p.text(), now.process, old.process)
	}
	return fmt.Sprintf("%s is replaced: allocation %s runs it instead of %s", p.text(),
		structs.ShortID(now.process), structs.ShortID(old.process))
}

// withReason adds the reason of a change, if the node has given one.
func withReason(change, reason string) string {
	if reason == "" {
		return change
	}
	return change + ": " + reason
}

// recordChanges adds an event to a node's history for each part whose health a report has changed. The rows
// of the report are written already.
func recordChanges(tx *WriteTx, nodeID string, old, now nodeHealth, at int64) {
	events := eventsBetween(old, now, time.Unix(0, at).UTC())
	if len(events) > 0 {
		n := shallowCopy(Node(tx, nodeID))
		addEvents(tx, n, events...)
		schema.Nodes.Put(tx, n)
	}
}
