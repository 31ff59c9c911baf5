package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// The subsystems of the events for a node's history.
const (
	subsystemDriver = "Driver"
	subsystemDevice = "Device"
	subsystemCSI    = "CSI"
)

// maxEvents is the number of events that one report of a node makes at most. A node's history keeps no more.
const maxEvents = 10

// partHealth is the health of one driver, device or plugin instance. The zero value is that of a missing
// part.
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

// healthOf reads the health of a node's drivers and devices from its row.
func healthOf(n *structs.Node) nodeHealth {
	h := nodeHealth{}
	for name, d := range n.Drivers {
		p := part{subsystemDriver, "driver " + name, "driver", name}
		h[p] = partHealth{
			there:       d.Detected,
			healthy:     d.Detected && d.Healthy,
			description: d.HealthDescription,
			process:     d.Attributes["driver."+name+".version"],
		}
	}
	if n.NodeResources == nil {
		return h
	}
	for _, g := range n.NodeResources.Devices {
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
		healthy:     i.Healthy || i.HealthDescription == state.NodeIsDown,
		description: i.HealthDescription,
		process:     i.AllocID,
	}
}

func instancePart(k structs.CSIInstanceKey) part {
	text := fmt.Sprintf("plugin %s (%s)", k.PluginID, k.Kind)
	return part{subsystemCSI, text, "plugin", k.PluginID}
}

// eventsBetween returns an event for each part whose health or process has changed, in the order of the
// parts. If there are more than maxEvents, the last one counts the rest.
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
	if len(events) > maxEvents {
		last := *events[maxEvents-1]
		last.Message = fmt.Sprintf("%d other drivers, devices and plugins have changed", len(events)-maxEvents+1)
		last.Details = nil
		events = append(events[:maxEvents-1], &last)
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

// reportedHealth returns the health of a node's parts before and after a registration.
func reportedHealth(
	tx *state.ReadTx, old, node *structs.Node, instances []*structs.CSIPluginInstance,
) (was, is nodeHealth) {
	was = healthOf(old)
	for row := range state.InstancesByNode(tx, old.ID) {
		was.addInstance(row)
	}
	is = healthOf(node)
	for _, i := range instances {
		is.addInstance(i)
	}
	return was, is
}

// updatedHealth returns the health of the plugin instances of an update before and after it.
func updatedHealth(tx *state.ReadTx, req *structs.NodeUpdateCSIRequest) (was, is nodeHealth) {
	was = nodeHealth{}
	is = nodeHealth{}
	if req.Full {
		for row := range state.InstancesByNode(tx, req.NodeID) {
			was.addInstance(row)
		}
	}
	for _, i := range req.Upserts {
		if row := state.Instance(tx, i.PluginID, i.Kind, req.NodeID); row != nil {
			was.addInstance(row)
		}
		is.addInstance(i)
	}
	for _, k := range req.Removes {
		if row := state.Instance(tx, k.PluginID, k.Kind, req.NodeID); row != nil {
			was.addInstance(row)
		}
	}
	return was, is
}

// lockNode waits until no other report of a node is being recorded. A node that got no answer in time repeats
// its report; without the lock both reports would write the same events.
func (n nodes) lockNode(ctx context.Context, nodeID string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	unlock, err = n.nodeLocks.Lock(ctx, "", nodeID)
	if err != nil {
		return nil, structs.Busy(writePatience, "another report of node %s is being recorded", nodeID)
	}
	return unlock, nil
}

// recordEvents adds events to the history of a node. The report that they follow from is recorded already: a
// failure loses a line of history and nothing else.
func (n nodes) recordEvents(ctx context.Context, nodeID string, was, is nodeHealth) {
	events := eventsBetween(was, is, n.now())
	if len(events) == 0 {
		return
	}
	req := &structs.NodeEventsRequest{Events: map[string][]*structs.NodeEvent{nodeID: events}}
	_, err := fsm.Propose(ctx, n.raft, fsm.NodeEvents, req)
	if err != nil {
		n.logger.Warn("failed to record events of a node", "node_id", nodeID, "error", err)
	}
}
