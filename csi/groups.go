package csi

import (
	"context"
	"fmt"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// Groups are the calls of a client about group snapshots. A plugin gets them only if it announces the service
// and its capability (CSI spec, GroupControllerGetCapabilities).
type Groups struct{ *Client }

// Offered queries whether the plugin takes group snapshots. The client keeps the answer for Create.
func (c Groups) Offered(ctx context.Context) (bool, error) {
	plugin := c.getLearned().plugin
	if plugin == nil {
		var err error
		plugin, err = c.PluginCapabilities(ctx)
		if err != nil {
			return false, err
		}
	}

	offered := false
	if plugin.Groups {
		resp, err := c.group.GroupControllerGetCapabilities(ctx, &spec.GroupControllerGetCapabilitiesRequest{})
		if err != nil {
			return false, err
		}
		for _, p := range resp.GetCapabilities() {
			offered = offered || p.GetRpc().GetType() ==
				spec.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT
		}
	}
	c.updateLearned(func(k *learned) { k.groups = &offered })
	return offered, nil
}

// has is Offered, by an earlier answer if there is one.
func (c Groups) has(ctx context.Context) (bool, error) {
	if k := c.getLearned(); k.groups != nil {
		return *k.groups, nil
	}
	return c.Offered(ctx)
}

// Create takes the group snapshot named req.Name, or finds it again. A group that is not ready yet is cut:
// the same call, later, tells whether it is.
func (c Groups) Create(
	ctx context.Context, req *nodecalls.ClientCSIGroupRequest,
) (*storage.CSIGroup, error) {
	const rpc = "CreateVolumeGroupSnapshot"
	has, err := c.has(ctx)
	if err != nil {
		return nil, err
	}

	err = c.checkRequest(rpc,
		requirement{"name", volumeNameFault(req.Name)},
		requirement{"source_volume_ids", listFault(req.SourceExternalIDs)},
		requirement{"capability", faultIf(!has, "the plugin has no group snapshots")},
		smallMap("parameters", req.Parameters))
	if err != nil {
		return nil, err
	}

	resp, err := c.group.CreateVolumeGroupSnapshot(ctx, &spec.CreateVolumeGroupSnapshotRequest{
		Name:            req.Name,
		SourceVolumeIds: req.SourceExternalIDs,
		Secrets:         req.Secrets,
		Parameters:      req.Parameters,
	})
	if err != nil {
		return nil, err
	}
	return c.read(rpc, resp.GetGroupSnapshot(), req.SourceExternalIDs)
}

// listFault describes the fault of the IDs of a group in a request, "" for none.
func listFault(ids []string) string {
	if len(ids) == 0 || len(ids) > storage.MaxGroupMembers {
		return fmt.Sprintf("has %d IDs, expected 1 to %d", len(ids), storage.MaxGroupMembers)
	}
	seen := map[string]bool{}
	for _, id := range ids {
		if id == "" || seen[id] {
			return "has an empty ID, or one twice"
		}
		seen[id] = true
	}
	return ""
}

// read checks and reads a group of an answer.
func (c Groups) read(
	rpc string, g *spec.VolumeGroupSnapshot, sources []string,
) (*storage.CSIGroup, error) {
	most := len(g.GetSnapshots()) > storage.MaxGroupMembers
	err := c.checkResponse(rpc,
		requirement{"group_snapshot", faultIf(g == nil, "is missing")},
		requirement{"group_snapshot.group_snapshot_id", idFault(g.GetGroupSnapshotId(), structs.MaxCSIID)},
		requirement{"group_snapshot.creation_time", timeFault(g.GetCreationTime())},
		requirement{"group_snapshot.snapshots", faultIf(most, "has more than were requested")})
	if err != nil {
		return nil, err
	}

	group := &storage.CSIGroup{
		ID:         g.GetGroupSnapshotId(),
		CreateTime: g.GetCreationTime().GetSeconds(),
		IsReady:    g.GetReadyToUse(),
	}
	for i, s := range g.GetSnapshots() {
		at := fmt.Sprintf("group_snapshot.snapshots[%d].", i)
		// A plugin that leaves the ID out lets the member be deleted alone. The others must agree.
		other := s.GetGroupSnapshotId() != "" && s.GetGroupSnapshotId() != group.ID
		err := c.checkResponse(rpc,
			requirement{at + "group_snapshot_id", faultIf(other, "is that of another group")})
		if err != nil {
			return nil, err
		}
		member, err := Snapshots{c.Client}.read(rpc, at, s)
		if err != nil {
			return nil, err
		}
		group.IsReady = group.IsReady && member.IsReady
		group.Snapshots = append(group.Snapshots, member)
	}
	return group, c.checkResponse(rpc, requirement{"group_snapshot.snapshots", group.Fault(sources)})
}

// Delete deletes a group snapshot with the exact list of its snapshots. A group that does not exist is no
// error.
func (c Groups) Delete(ctx context.Context, req *nodecalls.ClientCSIGroupDeleteRequest) error {
	err := c.checkRequest("DeleteVolumeGroupSnapshot",
		notEmpty("group_snapshot_id", req.ExternalID),
		requirement{"snapshot_ids", listFault(req.SnapshotIDs)})
	if err != nil {
		return err
	}
	_, err = c.group.DeleteVolumeGroupSnapshot(ctx, &spec.DeleteVolumeGroupSnapshotRequest{
		GroupSnapshotId: req.ExternalID,
		SnapshotIds:     req.SnapshotIDs,
		Secrets:         req.Secrets,
	})
	return err
}
