package endpointstest

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/internal/codec"
	"berth/state/csi"
	"berth/structs"
)

// AddVolume registers a volume that is there, for many writers.
func (s *Server) AddVolume(id string) *structs.CSIVolume {
	s.T.Helper()
	v := Volume(id)
	v.ExternalID = "ext-" + id
	return Must(s, structs.CSIVolumeRegister, RegisterRequest(v)).Volumes[0]
}

// RegisterRequest returns a request to register volumes.
func RegisterRequest(volumes ...*structs.CSIVolume) *structs.CSIVolumeRegisterRequest {
	return &structs.CSIVolumeRegisterRequest{Volumes: volumes}
}

// GetVolume reads a volume.
func (s *Server) GetVolume(id string) *structs.CSIVolumeDetail {
	s.T.Helper()
	return Must(s, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: id}).Volume
}

// Volume returns a volume for many writers, with secrets.
func Volume(id string) *structs.CSIVolume {
	return &structs.CSIVolume{
		ID: id,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:     "pl",
			Secrets:      structs.Secrets{"password": "hunter2"},
			MountOptions: &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=hunter2"}},
			RequestedCapabilities: []*structs.CSIVolumeCapability{
				{AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem}},
		},
	}
}

// ReadyVolume is a volume as the row of a created one.
func ReadyVolume(id string) *structs.CSIVolume {
	v := Volume(id)
	v.Namespace = "default"
	v.ExternalID = "ext-" + id
	v.State = structs.VolumeReady
	return v
}

// Claim returns a claim of an allocation to write to a volume.
func Claim(volume, alloc string) *structs.CSIClaim {
	return &structs.CSIClaim{
		VolumeID:       volume,
		AllocID:        alloc,
		Mode:           structs.ClaimWrite,
		AccessMode:     structs.CSIMultiNodeMultipleWriter,
		AttachmentMode: structs.CSIFileSystem,
	}
}

// Claim claims a volume for an allocation on a node.
func (s *Server) Claim(volume, alloc, node string) *structs.CSIClaim {
	s.T.Helper()
	return Must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:   node,
		SecretID: SecretOf(node),
		Claims:   []*structs.CSIClaim{Claim(volume, alloc)},
	}).Claims[0]
}

// Claimed reports whether the allocation a1 has its claim of the volume v.
func (s *Server) Claimed() bool {
	return csi.Claim(s.Store.Read(), "default", "v", "a1") != nil
}

// CarriesSecrets looks for the fixtures' secrets in an answer as it goes over the wire.
func CarriesSecrets(t *testing.T, answer any) bool {
	t.Helper()
	wire, err := codec.Encode(answer)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(wire)+string(text), "hunter2")
}
