package node

import (
	"berth/internal/codec"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// nodeUnchanged reports whether the registration of a node would change nothing of the node itself, except
// times: a restarted node, or one that has lost its leader, is mostly unchanged. The node has passed
// registration. The result may be false for a registration that would change nothing after all.
func nodeUnchanged(old, node *structs.Node) bool {
	// An entry has to bring the node back.
	switch old.Status {
	case structs.NodeDown:
		return false
	// A ready node may report that it begins: its heartbeats give its status.
	case structs.NodeReady, node.Status:
		return structs.NodeEqual(old, node, reported)
	}

	return false
}

// reported selects the part of a node that it reports itself, without the times at which drivers were seen. A
// driver is seen at each report, so its time alone would make each of them a change.
const reported = structs.IgnoreServersPart | structs.IgnoreDriverTimes

// instancesUnchanged reports whether a report of plugin instances has no changes.
func instancesUnchanged(tx *state.ReadTx, r *structs.NodeUpdateCSIRequest) bool {
	seen := map[structs.CSIInstanceKey]bool{}
	// An instance that is there and the same needs no entry.
	for _, i := range r.Upserts {
		row := csi.Instance(tx, i.PluginID, i.Kind, r.NodeID)
		if row == nil || !csi.SameInstance(row, i) {
			return false
		}

		seen[i.Key()] = true
	}

	for _, k := range r.Removes {
		row := csi.Instance(tx, k.PluginID, k.Kind, r.NodeID)
		if row != nil {
			return false
		}
	}

	// Only a full report says that the others are gone.
	if !r.Full {
		return true
	}

	for row := range csi.InstancesByNode(tx, r.NodeID) {
		if !seen[row.Key()] {
			return false
		}
	}

	return true
}

// allocUpdateUnchanged reports whether the report of a node on an allocation has no changes. Each part that
// the state function would store is compared. A part that the report leaves out changes nothing.
func allocUpdateUnchanged(a *structs.Allocation, u *structs.AllocClientUpdate) bool {
	return u.ClientStatus == a.ClientStatus &&
		u.ClientDescription == a.ClientDescription &&
		!a.TakesHealth(u.DeploymentStatus) &&
		(u.NetworkStatus == nil || codec.SameBytes(a.NetworkStatus, u.NetworkStatus)) &&
		structs.SameInstances(a.Services, u.Services) &&
		codec.SameBytes(a.TaskStates, u.TaskStates)
}
