package csi_test

import (
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

var silence = structs.Errorf(structs.KindTimeout, "no answer")

// serverWithLostClaim is a server with the volume v, which the allocation a1 holds on n1. The node is down
// and answers nothing.
func serverWithLostClaim(t *testing.T) (*endpointstest.Server, *endpointstest.FakeNode) {
	s, n := serverWithClaim(t)
	s.Endpoints.Socket = "/run/berth.sock"
	s.SetNodeDown("n1")
	reportVolume(n, nil, silence)
	return s, n
}

func TestForcedDetach_WithoutAProofIsTakenOverTheSocketAlone(t *testing.T) {
	s, _ := serverWithLostClaim(t)
	forwarded := *forceDetach
	forwarded.Forwarded = true
	for _, req := range []*structs.CSIVolumeDetachRequest{forceDetach, &forwarded} {
		_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeDetach, req)
		endpointstest.WantSocket(t, err, "/run/berth.sock")
		caller := endpointstest.RemoteCaller(t, s.RPC, rpc.ByteMux)
		_, err = rpc.Call(opsocket.Mark(t.Context()), caller, structs.CSIVolumeDetach, req)
		endpointstest.WantSocket(t, err, "/run/berth.sock")
	}
	if !s.Claimed() || s.GetVolume("v").Forced != nil {
		t.Fatal("a denied request released the claim")
	}

	s.OverSocket = true
	endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if s.Claimed() {
		t.Error("the claim is still there")
	}
}

func TestForcedDetach_WithAProofNeedsNoSocket(t *testing.T) {
	s, n := serverWithEndedClaim(t)
	reportVolume(n, &nodecalls.ClientCSINodeVolumeResponse{}, nil)
	got := endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if got.Proof != structs.DetachNotMounted || s.Claimed() {
		t.Errorf("got %+v; claimed %t", got, s.Claimed())
	}
}

// A node that is down has allocations that it believes to be its own, and may mount the volume for them.
func TestForcedDetach_TheAnswerOfALostNodeIsNoProof(t *testing.T) {
	s, n := serverWithLostClaim(t)
	reportVolume(n, &nodecalls.ClientCSINodeVolumeResponse{}, nil)
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIVolumeDetach, forceDetach)
	if !s.Claimed() {
		t.Fatal("a denied request released the claim")
	}
	s.OverSocket = true
	got := endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if got.Proof != structs.DetachVouched || !strings.Contains(got.Detail, "does not prove") || s.Claimed() {
		t.Errorf("got %+v; claimed %t", got, s.Claimed())
	}
	if f := s.GetVolume("v").Forced; f == nil || !strings.Contains(f.What, "saw nothing mounted") {
		t.Errorf("the record is %+v", f)
	}
}

func TestForcedDetach_OfAnAttachmentAtASilentNodeNeedsTheSocket(t *testing.T) {
	s, n := serverWithFailedDetach(t)
	s.SetNodeDown("n1")
	reportVolume(n, nil, silence)
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIVolumeDetach, forceDetach)
	if attachmentRow(s) == nil {
		t.Fatal("a denied request deleted the attachment")
	}
	s.OverSocket = true
	endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if attachmentRow(s) != nil {
		t.Error("the attachment is still there")
	}
}

func TestClaimRelease_ShowsAForcedReleaseOverAPort(t *testing.T) {
	s, _ := serverWithLostClaim(t)
	got := endpointstest.Must(s, structs.VolumeClaimRelease, &structs.VolumeClaimReleaseRequest{
		VolumeID: "v",
		AllocID:  "a1",
		Force:    true,
		DryRun:   true,
	})
	if got.Rejected != "" || len(got.Unproved) == 0 {
		t.Errorf("the dry run is rejected: %q, unproved %q", got.Rejected, got.Unproved)
	}
}
