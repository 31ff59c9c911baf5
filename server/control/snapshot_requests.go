package control

import (
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
	"berth/structs/validate/report"
)

// snapshotControllers returns the nodes whose controllers may serve a snapshot, because they reach its
// volume.
func snapshotControllers(tx *state.ReadTx, s *storage.VolumeSnapshot) []string {
	var want *structs.CSITopologyRequest
	if len(s.Topologies) > 0 {
		want = &structs.CSITopologyRequest{Required: s.Topologies}
	}
	return nodeconn.Controllers(tx, s.PluginID, want, s.Namespace+"/"+s.VolumeID)
}

// secretsHolder returns a volume with the secrets for the calls of a snapshot. Secrets that a volume has
// without encryption are not copied, so they are the volume's as long as it exists.
func secretsHolder(tx *state.ReadTx, s *storage.VolumeSnapshot) *structs.CSIVolume {
	h := &structs.CSIVolume{
		Namespace:     s.Namespace,
		ID:            s.VolumeID,
		PluginID:      s.PluginID,
		SecretsFrom:   s.SecretsFrom,
		SealedSecrets: s.SealedSecrets,
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

// snapshotCreateRequest returns the request to take a snapshot, which is also the one for its readiness.
func snapshotCreateRequest(
	s *storage.VolumeSnapshot, secrets structs.Secrets,
) *nodecalls.ClientCSISnapshotRequest {
	return &nodecalls.ClientCSISnapshotRequest{
		PluginID:         s.PluginID,
		Name:             snapshot.NameAtPlugin(s),
		SourceExternalID: s.SourceExternalID,
		Parameters:       s.Parameters,
		Secrets:          secrets,
	}
}

// snapshotDeleteRequest returns the request to delete a snapshot.
func snapshotDeleteRequest(
	s *storage.VolumeSnapshot, secrets structs.Secrets,
) *nodecalls.ClientCSISnapshotDeleteRequest {
	return &nodecalls.ClientCSISnapshotDeleteRequest{
		PluginID:   s.PluginID,
		ExternalID: s.ExternalID,
		Secrets:    secrets,
	}
}

// snapshotAnswer checks the answer of a node to the creation of a snapshot.
func snapshotAnswer(
	s *storage.VolumeSnapshot, resp *nodecalls.ClientCSISnapshotResponse,
) (*storage.CSISnapshot, error) {
	if resp.Exhausted != "" {
		return nil, exhaustedError(resp.Exhausted)
	}
	err := report.Snapshot(resp.Snapshot)
	if err != nil {
		return nil, structs.Internalf("plugin %s: CreateSnapshot of volume %s: %w", s.PluginID, s.VolumeID, err)
	}
	return resp.Snapshot, nil
}
