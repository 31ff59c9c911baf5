package endpoints

import (
	"bytes"
	"reflect"
	"time"

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
	is, said := *old, *node
	said.Status, said.StatusDescription, said.StatusUpdatedAt = is.Status, is.StatusDescription, is.StatusUpdatedAt
	said.SchedulingEligibility, said.Drain, said.Events = is.SchedulingEligibility, is.Drain, is.Events
	said.Indexes = is.Indexes
	said.SetCSIInstances(is.CSIInstances())
	is.Drivers, said.Drivers = timeless(is.Drivers), timeless(said.Drivers)
	return reflect.DeepEqual(&is, &said)
}

// timeless are drivers without the time at which each last changed, which begins anew with the agent.
func timeless(drivers map[string]*structs.DriverInfo) map[string]*structs.DriverInfo {
	if drivers == nil {
		return nil
	}
	out := make(map[string]*structs.DriverInfo, len(drivers))
	for name, d := range drivers {
		if d != nil {
			c := *d
			c.UpdateTime = time.Time{}
			d = &c
		}
		out[name] = d
	}
	return out
}

// reportedAlready reports whether a report of plugin instances, all there are or what differs, says only
// what is known.
func reportedAlready(tx *state.Read, node string, upserts []*structs.CSIPluginInstance, removes []structs.CSIInstanceKey, full bool) bool {
	seen := map[structs.CSIInstanceKey]bool{}
	for _, i := range upserts {
		row := state.Instance(tx, i.PluginID, i.Kind, node)
		if row == nil || !state.SameInstance(row, i) {
			return false
		}
		seen[structs.CSIInstanceKey{PluginID: i.PluginID, Kind: i.Kind}] = true
	}
	for _, k := range removes {
		if state.Instance(tx, k.PluginID, k.Kind, node) != nil {
			return false
		}
	}
	if !full {
		return true
	}
	rows := 0
	for range state.InstancesByNode(tx, node) {
		rows++
	}
	return rows == len(seen)
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
