package csi_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/state/csi"
	"berth/structs"
)

// otherVolume registers a volume with the ID of the default one in another namespace.
func otherVolume(s *endpointstest.Server) {
	s.T.Helper()
	s.AddNamespace("other")
	v := endpointstest.Volume("v")
	v.ExternalID = "ext-other"
	v.Namespace = "other"
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
}

// A claim is on the volume of the allocation's own namespace, whatever namespace the request names.
func TestClaim_StaysInTheNamespaceOfItsAllocation(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	otherVolume(s)
	claim := endpointstest.Claim("v", "a1")
	claim.Namespace = "other"
	request := &structs.CSIVolumeClaimRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Claims:   []*structs.CSIClaim{claim},
	}
	endpointstest.Rejected(s, structs.KindNotFound, structs.CSIVolumeClaim, request)

	s.AddVolume("v")
	endpointstest.Must(s, structs.CSIVolumeClaim, request)
	tx := s.Store.Read()
	if csi.Claim(tx, "other", "v", "a1") != nil || csi.Claim(tx, "default", "v", "a1") == nil {
		t.Error("the claim is not on the volume of the allocation's namespace")
	}

	get := &structs.CSIClaimGetRequest{
		VolumeID: "v", AllocID: "a1", NodeID: "n1", SecretID: endpointstest.SecretOf("n1"),
	}
	get.Namespace = "other"
	endpointstest.Rejected(s, structs.KindNotFound, structs.CSIClaimGet, get)
}

// A release in one namespace leaves the claims of others (issue 28205 of the peer).
func TestClaimRelease_LeavesClaimsOfOtherNamespaces(t *testing.T) {
	s, _ := serverWithEndedClaim(t)
	otherVolume(s)
	release := *releaseV
	release.Namespace = "other"
	endpointstest.Rejected(s, structs.KindNotFound, structs.VolumeClaimRelease, &release)
	if !s.Claimed() {
		t.Error("a release in another namespace took the claim")
	}
}
