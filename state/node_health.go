package state

import (
	"cmp"
	"fmt"
	"maps"
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
	text      string // in a message: "driver exec"
	key, name string // in the details
}

// nodeHealth is the health of all parts of a node.
type nodeHealth map[part]partHealth

// healthOf reads the health of a node's drivers, devices and plugin instances from its rows.
func healthOf(tx Reader, n *structs.Node) nodeHealth {
	h := nodeHealth{}
	for i := range csi.InstancesByNode(tx, n.ID) {
		h.addInstance(i)
	}

	for name, d := range n.Drivers {
		p := part{subsystemDriver, "driver " + name, "driver", name}
		h[p] = partHealth{
			there:       d.Detected,
			healthy:     d.Detected && d.Healthy,
			description: d.HealthDescription,
			process:     d.Attributes["driver."+name+".version"],
		}
	}

	for _, g := range devicesOf(n) {
		for _, d := range g.Instances {
			p := part{subsystemDevice, "device " + d.ID + " of " + g.ID(), "device", g.ID() + "/" + d.ID}
			h[p] = partHealth{
				there:       true,
				healthy:     d.Healthy,
				description: d.HealthDescription,
			}
		}
	}

	return h
}

// addInstance adds the health of a plugin instance. One that is unhealthy because its node is down counts as
// healthy: it was, and the servers wrote the change, not the node.
func (h nodeHealth) addInstance(i *structs.CSIPluginInstance) {
	h[instancePart(i.Key())] = partHealth{
		there:       true,
		healthy:     i.Healthy || i.DownWithNode,
		description: i.HealthDescription,
		process:     i.AllocID,
	}
}

func instancePart(k structs.CSIInstanceKey) part {
	text := fmt.Sprintf("plugin %s (%s)", k.PluginID, k.Kind)
	return part{subsystemCSI, text, "plugin", k.PluginID}
}

// eventsBetween returns an event for each part whose health or process has changed, in the order of the
// parts. If there are more than keptEvents, the last one counts the rest.
func eventsBetween(old, now nodeHealth, at time.Time) []*structs.NodeEvent {
	parts := slices.Collect(maps.Keys(now))
	for p := range old {
		if _, known := now[p]; !known {
			parts = append(parts, p)
		}
	}

	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.subsystem, b.subsystem), cmp.Compare(a.text, b.text))
	})

	var events []*structs.NodeEvent
	for _, p := range parts {
		message := healthChange(p, old[p], now[p])
		if message == "" {
			continue
		}

		events = append(events, &structs.NodeEvent{
			Subsystem: p.subsystem,
			Message:   structs.Cut(message, structs.MaxText),
			Details:   map[string]string{p.key: structs.Cut(p.name, structs.MaxText)},
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
		return withReason(p.text+" is gone", now.description)
	case !now.there:
		return ""
	case now.healthy && !old.healthy:
		return p.text + " is healthy"
	case !now.healthy && (old.healthy || !old.there):
		return withReason(p.text+" is unhealthy", now.description)
	case old.process == "" || now.process == "" || old.process == now.process:
		return ""
	case p.subsystem == subsystemDriver:
		return fmt.Sprintf("%s is replaced: it is version %s instead of %s", p.text, now.process, old.process)
	}
	return fmt.Sprintf("%s is replaced: allocation %s runs it instead of %s", p.text,
		structs.ShortID(now.process), structs.ShortID(old.process))
}

// withReason adds the reason of a change, if the node has given one.
func withReason(change, reason string) string {
	if reason == "" {
		return change
	}
	return change + ": " + reason
}

// recordChanges adds an event to a node's history for each part whose health differs from the health before
// the report. The rows of the report are written already. If the health before is nil, it adds none.
func recordChanges(tx *WriteTx, nodeID string, before nodeHealth, now int64) {
	if before == nil {
		return
	}
	n := Node(tx, nodeID)
	events := eventsBetween(before, healthOf(tx, n), time.Unix(0, now).UTC())
	if len(events) > 0 {
		n = shallowCopy(n)
		addEvents(tx, n, events...)
		schema.Nodes.Put(tx, n)
	}
}
