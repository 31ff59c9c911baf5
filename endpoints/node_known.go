package endpoints

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	"berth/internal/codec"
	"berth/state"
	"berth/structs"
)

// registeredAlready reports whether registering a node would change nothing of the node itself but times at
// which things were seen: a node that starts again, or that has lost its leader, mostly is what it was. What
// it says has been checked and completed (see registration). It may be false for what would change nothing
// after all.
func registeredAlready(old, node *structs.Node) bool {
	if old.Status != structs.NodeReady && old.Status != node.Status || old.Status == structs.NodeDown {
		return false
	}
	return saysTheSame(old, node)
}

// saysTheSame compares what nodes say of themselves, but for the times at which drivers were seen.
func saysTheSame(old, node *structs.Node) bool {
	is, said := *old, *node
	said.Status, said.StatusDescription, said.StatusUpdatedAt = is.Status, is.StatusDescription, is.StatusUpdatedAt
	said.SchedulingEligibility, said.Drain, said.Events = is.SchedulingEligibility, is.Drain, is.Events
	said.Indexes = is.Indexes
	said.SetCSIInstances(is.CSIInstances())
	if !sameTexts(is.Attributes, said.Attributes) || !sameTexts(is.Meta, said.Meta) || !sameDrivers(is.Drivers, said.Drivers) {
		return false
	}
	// The rest, whatever fields a node comes to have. Maps are left out, since reflection over them is slow.
	is.Attributes, is.Meta, is.Drivers = nil, nil, nil
	said.Attributes, said.Meta, said.Drivers = nil, nil, nil
	return reflect.DeepEqual(&is, &said)
}

func sameTexts(a, b map[string]string) bool { return (a == nil) == (b == nil) && maps.Equal(a, b) }

// sameDrivers leaves out the time at which each driver last changed, which begins anew with the agent.
func sameDrivers(a, b map[string]*structs.DriverInfo) bool {
	return (a == nil) == (b == nil) && maps.EqualFunc(a, b, structs.SameDriver)
}

// reportedAlready reports whether a report of plugin instances, all there are or what differs, says only
// what is known.
func reportedAlready(tx *state.ReadTx, node string, upserts []*structs.CSIPluginInstance, removes []structs.CSIInstanceKey, full bool) bool {
	for _, i := range upserts {
		row := state.Instance(tx, i.PluginID, i.Kind, node)
		if row == nil || !state.SameInstance(row, i) {
			return false
		}
	}
	for _, k := range removes {
		if state.Instance(tx, k.PluginID, k.Kind, node) != nil {
			return false
		}
	}
	if !full {
		return true
	}
	for row := range state.InstancesByNode(tx, node) {
		if !slices.ContainsFunc(upserts, func(i *structs.CSIPluginInstance) bool { return i.PluginID == row.PluginID && i.Kind == row.Kind }) {
			return false
		}
	}
	return true
}

// saidAlready reports whether a node says of an allocation only what is known.
func saidAlready(a *structs.Allocation, u *structs.AllocClientUpdate) bool {
	return u.ClientStatus == a.ClientStatus && u.ClientDescription == a.ClientDescription && sameBytes(a.TaskStates, u.TaskStates)
}

// sameBytes compares by encoding, which is the same for equal values.
func sameBytes(a, b any) bool {
	x, errX := codec.Encode(a)
	y, errY := codec.Encode(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
