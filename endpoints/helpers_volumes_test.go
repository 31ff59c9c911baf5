package endpoints

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/internal/codec"
	"berth/state"
	"berth/structs"
)

// addVolume registers a volume that is there, for many writers.
func (s *server) addVolume(id string) *structs.CSIVolume {
	s.t.Helper()
	v := testVolume(id)
	v.ExternalID = "ext-" + id
	return must(s, structs.CSIVolumeRegister, registerRequest(v)).Volumes[0]
}

func registerRequest(volumes ...*structs.CSIVolume) *structs.CSIVolumeRegisterRequest {
	return &structs.CSIVolumeRegisterRequest{Volumes: volumes}
}

func (s *server) getVolume(id string) *structs.CSIVolumeDetail {
	s.t.Helper()
	return must(s, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: id}).Volume
}

func testVolume(id string) *structs.CSIVolume {
	return &structs.CSIVolume{
		ID:           id,
		PluginID:     "pl",
		Secrets:      structs.Secrets{"password": "hunter2"},
		MountOptions: &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=hunter2"}},
		RequestedCapabilities: []*structs.CSIVolumeCapability{
			{AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem}},
	}
}

// readyVolume is a volume as the row of a created one.
func readyVolume(id string) *structs.CSIVolume {
	v := testVolume(id)
	v.Namespace = "default"
	v.ExternalID = "ext-" + id
	v.State = structs.VolumeReady
	return v
}

func testClaim(volume, alloc string) *structs.CSIClaim {
	return &structs.CSIClaim{
		VolumeID:       volume,
		AllocID:        alloc,
		Mode:           structs.ClaimWrite,
		AccessMode:     structs.CSIMultiNodeMultipleWriter,
		AttachmentMode: structs.CSIFileSystem,
	}
}

func (s *server) claim(volume, alloc, node string) *structs.CSIClaim {
	s.t.Helper()
	return must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:   node,
		SecretID: secretOf(node),
		Claims:   []*structs.CSIClaim{testClaim(volume, alloc)},
	}).Claims[0]
}

func (s *server) claimed() bool {
	return state.Claim(s.Store.Read(), "default", "v", "a1") != nil
}

// carriesSecrets looks for the fixtures' secrets in an answer as it goes over the wire.
func carriesSecrets(t *testing.T, answer any) bool {
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
