package csi_test

import (
	"strings"
	"testing"

	"berth/endpoints/core"
	"berth/endpoints/csi"
	"berth/endpoints/endpointstest"
	"berth/state"
	statecsi "berth/state/csi"
	"berth/structs"
)

// TestClaim_RecordsManyInOneEntry: one entry records the claims of many allocations, and one entry releases
// them when the node is drained.
func TestClaim_RecordsManyInOneEntry(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	s.AddVolume("w")
	allocs := s.AddAllocs("a", "n1", 500)
	claim := &structs.CSIVolumeClaimRequest{NodeID: "n1", SecretID: endpointstest.SecretOf("n1")}
	release := &structs.CSIVolumeUnpublishRequest{NodeID: "n1", SecretID: endpointstest.SecretOf("n1")}
	for _, id := range allocs {
		for _, v := range []string{"v", "w"} {
			claim.Claims = append(claim.Claims, endpointstest.Claim(v, id))
			release.Claims = append(release.Claims, structs.CSIClaimKey{
				Namespace: "default",
				VolumeID:  v,
				AllocID:   id,
			})
		}
	}
	before := s.Raft.Len()
	got := endpointstest.Must(s, structs.CSIVolumeClaim, claim)
	if n := s.Raft.Len() - before; n != 1 || len(got.Claims) != 1000 {
		t.Fatalf("got %d claims in %d log entries, want 1000 in 1", len(got.Claims), n)
	}
	for i, c := range got.Claims {
		if c.VolumeID != claim.Claims[i].VolumeID || c.AllocID != claim.Claims[i].AllocID ||
			c.State != structs.ClaimGranted {
			t.Fatalf("claim %d came back as %+v", i, c)
		}
	}
	before = s.Raft.Len()
	endpointstest.Must(s, structs.CSIVolumeUnpublish, release)
	if n := s.Raft.Len() - before; n != 1 {
		t.Errorf("the release took %d log entries, want 1", n)
	}
	for range statecsi.ClaimsByNode(s.Store.Read(), "n1") {
		t.Fatal("a claim is left")
	}
	before = s.Raft.Len()
	endpointstest.Must(s, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
	})
	if n := s.Raft.Len() - before; n != 0 {
		t.Errorf("an empty release took %d log entries, want 0", n)
	}
	if faults := state.Check(s.Store.Read()); len(faults) > 0 {
		t.Error(faults)
	}
}

func TestClaim_RejectsTooMany(t *testing.T) {
	c := core.DefaultSettings()
	c.MaxClaims = 2
	s := endpointstest.New(t, c)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	allocs := s.AddAllocs("a", "n1", 3)
	claim := &structs.CSIVolumeClaimRequest{NodeID: "n1", SecretID: endpointstest.SecretOf("n1")}
	release := &structs.CSIVolumeUnpublishRequest{NodeID: "n1", SecretID: endpointstest.SecretOf("n1")}
	for _, id := range allocs {
		claim.Claims = append(claim.Claims, endpointstest.Claim("v", id))
		release.Claims = append(release.Claims, structs.CSIClaimKey{
			Namespace: "default",
			VolumeID:  "v",
			AllocID:   id,
		})
	}
	before := s.Raft.Len()
	for _, err := range []error{
		endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeClaim, claim),
		endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeUnpublish, release),
	} {
		if !strings.Contains(err.Error(), "3 are given; expected at most 2") {
			t.Errorf("got error %q", err)
		}
	}
	if n := s.Raft.Len() - before; n != 0 {
		t.Errorf("rejected requests made %d log entries", n)
	}
	claim.Claims = claim.Claims[:2]
	endpointstest.Must(s, structs.CSIVolumeClaim, claim)
}

// The goroutine that reads the connection does not assemble a large answer.
func TestVolumeGet_WithManyClaimsIsNotQuick(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	isQuick := func() bool {
		for _, e := range s.List() {
			if e.Name == structs.CSIVolumeGet.Name {
				return e.Inline(&structs.CSIVolumeGetRequest{ID: "v"})
			}
		}
		t.Fatal("there is no such method")
		return false
	}
	if !isQuick() {
		t.Error("a volume without claims is not quick")
	}
	req := &structs.CSIVolumeClaimRequest{NodeID: "n1", SecretID: endpointstest.SecretOf("n1")}
	for _, id := range s.AddAllocs("a", "n1", csi.FewClaims+1) {
		req.Claims = append(req.Claims, endpointstest.Claim("v", id))
	}
	endpointstest.Must(s, structs.CSIVolumeClaim, req)
	if isQuick() {
		t.Errorf("a volume with %d claims is quick", csi.FewClaims+1)
	}
}
