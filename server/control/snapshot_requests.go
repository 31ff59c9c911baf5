package control

import (
	"context"
	"slices"

	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
	"berth/structs/validate/report"
)

// reachingAll returns the nodes whose controllers may serve snapshots together, because they reach the volume
// of each.
func reachingAll(tx *state.ReadTx, members []*storage.VolumeSnapshot) (nodes []string) {
	for i, s := range members {
		want := &structs.CSITopologyRequest{Required: s.Topologies}
		reach := nodeconn.Controllers(tx, s.PluginID, want, s.Namespace+"/"+s.VolumeID)
		if i == 0 {
			nodes = reach
			continue
		}
		nodes = slices.DeleteFunc(nodes, func(id string) bool { return !slices.Contains(reach, id) })
	}
	return nodes
}

// secretsHolder returns a volume with the secrets for the calls of a snapshot. Secrets that a volume has
// without encryption are not copied, so they are the volume's as long as it exists.
func secretsHolder(tx *state.ReadTx, s *storage.VolumeSnapshot) *structs.CSIVolume {
	h := &structs.CSIVolume{
		Namespace: s.Namespace, ID: s.VolumeID,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:      s.PluginID,
			SecretsFrom:   s.SecretsFrom,
			SealedSecrets: s.SealedSecrets,
		},
	}
	v := csi.Volume(tx, s.Namespace, s.VolumeID)
	own := s.SecretsFrom != "" || s.SealedSecrets != nil
	if !own && v != nil && v.CreateIndex == s.VolumeIndex {
		h.Secrets = v.Secrets
		h.SealedSecrets = v.SealedSecrets
		h.SecretsFrom = v.SecretsFrom
	}
	return h
}

// snapshotCalls has the calls for a snapshot.
type snapshotCalls struct{ *storage.VolumeSnapshot }

// create takes the snapshot, or asks for its readiness. The answer is a group of one.
func (s snapshotCalls) create(
	ctx context.Context, c controllerLoop, _ []*storage.VolumeSnapshot, secrets structs.Secrets,
) (*storage.CSIGroup, error) {
	req := &nodecalls.ClientCSISnapshotRequest{
		PluginID:         s.PluginID,
		Name:             snapshot.NameAtPlugin(s.VolumeSnapshot),
		SourceExternalID: s.SourceExternalID,
		Parameters:       s.Parameters,
		Secrets:          secrets,
	}
	resp, err := callController(ctx, c, nodecalls.ClientCSISnapshotCreate, req)
	switch {
	case err != nil:
		return nil, err
	case resp.Exhausted != "":
		return nil, exhaustedError(resp.Exhausted)
	}

	err = report.Snapshot(resp.Snapshot)
	if err != nil {
		return nil, structs.Internalf("plugin %s: CreateSnapshot of volume %s: %w", s.PluginID, s.VolumeID, err)
	}
	return storage.GroupOfOne(resp.Snapshot, s.SourceExternalID), nil
}

func (s snapshotCalls) remove(
	ctx context.Context, c controllerLoop, _ []*storage.VolumeSnapshot, secrets structs.Secrets,
) error {
	req := &nodecalls.ClientCSISnapshotDeleteRequest{
		PluginID:   s.PluginID,
		ExternalID: s.ExternalID,
		Secrets:    secrets,
	}
	_, err := callController(ctx, c, nodecalls.ClientCSISnapshotDelete, req)
	return err
}

// groupCalls has the calls for a group.
type groupCalls struct{ *storage.GroupSnapshot }

// create takes the group, or asks for its readiness.
func (g groupCalls) create(
	ctx context.Context, c controllerLoop, rows []*storage.VolumeSnapshot, secrets structs.Secrets,
) (*storage.CSIGroup, error) {
	req := &nodecalls.ClientCSIGroupRequest{
		PluginID:          g.PluginID,
		Name:              snapshot.GroupNameAtPlugin(g.GroupSnapshot),
		SourceExternalIDs: snapshot.Sources(rows),
		Parameters:        g.Parameters,
		Secrets:           secrets,
	}
	resp, err := callController(ctx, c, nodecalls.ClientCSIGroupCreate, req)
	switch {
	case err != nil:
		return nil, err
	case resp.Exhausted != "":
		return nil, exhaustedError(resp.Exhausted)
	}

	err = report.Group(resp.Group, req.SourceExternalIDs)
	if err != nil {
		return nil, structs.Internalf("plugin %s: CreateVolumeGroupSnapshot of %s: %w", req.PluginID, req.Name, err)
	}
	return resp.Group, nil
}

// remove names all members, which a plugin compares with its own.
func (g groupCalls) remove(
	ctx context.Context, c controllerLoop, rows []*storage.VolumeSnapshot, secrets structs.Secrets,
) error {
	req := &nodecalls.ClientCSIGroupDeleteRequest{
		PluginID:          g.PluginID,
		ExternalID:        g.ExternalID,
		SourceExternalIDs: snapshot.Sources(rows),
		Secrets:           secrets,
	}
	for _, m := range rows {
		req.SnapshotIDs = append(req.SnapshotIDs, m.ExternalID)
	}
	_, err := callController(ctx, c, nodecalls.ClientCSIGroupDelete, req)
	return err
}
