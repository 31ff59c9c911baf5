package control

import (
	"context"
	"time"

	"berth/fsm"
	"berth/server/control/workqueue"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/report"
)

// opNodeExpand grows the file system of a volume on a node that has it (CSI spec, NodeExpandVolume).
const opNodeExpand = "node expand"

// needsNodeExpand reports whether the row of a claim needs that call.
func needsNodeExpand(c *structs.CSIClaim) bool {
	return c != nil &&
		c.ExpandBytes != 0 &&
		c.State == structs.ClaimGranted &&
		c.EndTime == 0
}

// growStep makes the node of a claim grow the volume. Calls for different nodes do not wait for each other: a
// plugin that hangs delays only its node. A node that is down is called when it is ready again.
func (c controllerLoop) growStep(tx *state.ReadTx, claim *structs.CSIClaim) workqueue.Step {
	s := workqueue.Step{
		Op:      opNodeExpand,
		Version: claim.ModifyIndex,
		Group:   claim.PluginID,
		Serial:  claim.Namespace + "/" + claim.VolumeID + " on " + claim.NodeID,
		Failed:  claim.ExpandError != nil,
		Due:     c.growDue(claim),
	}

	if !nodeconn.Reachable(state.Node(tx, claim.NodeID)) {
		s.Awaits = []string{nodeSignal(claim.NodeID)}
	}

	s.Act = func(ctx context.Context) error {
		req, err := c.growRequest(c.Store.Read(), claim)
		if err != nil {
			return c.growOutcome(ctx, claim, nil, err)
		}

		if req == nil {
			return nil
		}

		to := c.target(claim.NodeID)
		grown, err := nodeconn.Call(ctx, to, nodecalls.ClientCSINodeExpand, req)
		if ctx.Err() != nil {
			return ctx.Err() // the outcome is not known; the next leader makes the same call
		}

		if err == nil {
			err = report.NodeExpanded(grown, req.RequiredBytes)
			if err != nil {
				err = structs.Internalf(
					"plugin %s: NodeExpandVolume of volume %s: %w", req.PluginID, req.VolumeID, err)
			}
		}

		return c.growOutcome(ctx, claim, grown, err)
	}

	return s
}

// rpcGrow is the call of the step of a node.
const rpcGrow = "NodeExpandVolume"

// mountGrace is the time for which a claim that was just granted is left to its node.
const mountGrace = time.Minute

// growDue leaves a new grant to its node, which grows the volume with the mount and reports that.
func (c controllerLoop) growDue(claim *structs.CSIClaim) time.Time {
	if claim.ExpandError != nil {
		return retryDue(c.Clock, c.Config.Retry, claim.ExpandError, rpcGrow)
	}
	if claim.GrantIndex == claim.ModifyIndex {
		return c.Clock.After(claim.GrantTime, mountGrace)
	}
	return time.Time{}
}

func nodeSignal(id string) string { return "node " + id }

// growRequest names the volume as the allocation uses it; nil when the volume is gone.
func (c controllerLoop) growRequest(
	tx *state.ReadTx,
	claim *structs.CSIClaim,
) (*nodecalls.ClientCSINodeExpandRequest, error) {
	v, err := volumesecrets.OpenForCall(tx, c.Keys, csi.Volume(tx, claim.Namespace, claim.VolumeID))
	if v == nil || err != nil {
		return nil, err
	}

	req := &nodecalls.ClientCSINodeExpandRequest{
		VolumeID:        v.ID,
		VolumeNamespace: v.Namespace,
		AllocID:         claim.AllocID,
		PluginID:        v.PluginID,
		ExternalID:      v.ExternalID,
		RequiredBytes:   claim.ExpandBytes,
		AccessMode:      claim.AccessMode,
		AttachmentMode:  claim.AttachmentMode,
		Secrets:         v.Secrets,
	}

	req.SetTimeout(csi.PluginConfig(tx, v.PluginID).OfNode())
	if claim.AttachmentMode == structs.CSIFileSystem {
		req.MountOptions = v.MountOptions.Merge(jobMountOptions(tx, claim))
	}

	return req, nil
}

// growOutcome records the outcome of the call.
func (c controllerLoop) growOutcome(
	ctx context.Context,
	claim *structs.CSIClaim,
	grown *nodecalls.ClientCSINodeExpandResponse,
	err error,
) error {
	outcome := &structs.CSINodeExpandOutcome{
		VolumeID:     claim.VolumeID,
		AllocID:      claim.AllocID,
		NodeID:       claim.NodeID,
		RowIndex:     claim.CreateIndex,
		Bytes:        claim.ExpandBytes,
		WriteOptions: c.stamp(claim.Namespace),
	}

	if err != nil {
		outcome.Err = c.operationError(err, claim.ExpandError, rpcGrow)
	} else {
		outcome.Capacity = grown.Capacity
	}

	return propose(ctx, c.Deps, fsm.NodeExpanded, outcome)
}
