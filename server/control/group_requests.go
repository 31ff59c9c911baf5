package control

import (
	"slices"

	"berth/state"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
	"berth/structs/validate/report"
)

// groupControllers returns the nodes whose controllers may serve a group, because they reach all of its
// volumes.
func groupControllers(tx *state.ReadTx, g *storage.GroupSnapshot) (nodes []string) {
	for i, m := range snapshot.Members(tx, g) {
		reach := snapshotControllers(tx, m)
		if i == 0 {
			nodes = reach
			continue
		}
		nodes = slices.DeleteFunc(nodes, func(id string) bool { return !slices.Contains(reach, id) })
	}
	return nodes
}

// groupCreateRequest returns the request to take a group, which is also the one for its readiness. rows are
// its members.
func groupCreateRequest(
	g *storage.GroupSnapshot, rows []*storage.VolumeSnapshot, secrets structs.Secrets,
) *nodecalls.ClientCSIGroupRequest {
	return &nodecalls.ClientCSIGroupRequest{
		PluginID:          g.PluginID,
		Name:              snapshot.GroupNameAtPlugin(g),
		SourceExternalIDs: sourcesOf(rows),
		Parameters:        g.Parameters,
		Secrets:           secrets,
	}
}

// sourcesOf returns the plugin's IDs of the volumes of snapshots.
func sourcesOf(rows []*storage.VolumeSnapshot) (ids []string) {
	for _, m := range rows {
		ids = append(ids, m.SourceExternalID)
	}
	return ids
}

// groupDeleteRequest returns the request to delete a group with the IDs of all members, which a plugin
// compares with its own.
func groupDeleteRequest(
	g *storage.GroupSnapshot, rows []*storage.VolumeSnapshot, secrets structs.Secrets,
) *nodecalls.ClientCSIGroupDeleteRequest {
	req := &nodecalls.ClientCSIGroupDeleteRequest{
		PluginID:          g.PluginID,
		ExternalID:        g.ExternalID,
		SourceExternalIDs: sourcesOf(rows),
		Secrets:           secrets,
	}
	for _, m := range rows {
		req.SnapshotIDs = append(req.SnapshotIDs, m.ExternalID)
	}
	return req
}

// groupAnswer checks the answer of a node to the creation of a group.
func groupAnswer(
	req *nodecalls.ClientCSIGroupRequest, resp *nodecalls.ClientCSIGroupResponse,
) (*storage.CSIGroup, error) {
	if resp.Exhausted != "" {
		return nil, exhaustedError(resp.Exhausted)
	}
	err := report.Group(resp.Group, req.SourceExternalIDs)
	if err != nil {
		return nil, structs.Internalf("plugin %s: CreateVolumeGroupSnapshot of %s: %w", req.PluginID, req.Name, err)
	}
	return resp.Group, nil
}
