package endpoints

import (
	"testing"

	"berth/internal/opsocket"
	"berth/rpc"
	"berth/structs"
)

var silence = structs.Errorf(structs.KindTimeout, "no answer")

// serverWithLostClaim is a server with the volume v, which the allocation a1 holds on n1. The node is down
// and answers nothing.
func serverWithLostClaim(t *testing.T) (*server, *fakeNode) {
	s, n := serverWithClaim(t)
	s.Endpoints.Socket = "/run/berth.sock"
	s.setNodeDown("n1")
	n.report(nil, silence)
	return s, n
}

func TestForcedDetach_WithoutAProofIsTakenOverTheSocketAlone(t *testing.T) {
	s, _ := serverWithLostClaim(t)
	forwarded := *forceDetach
	forwarded.Forwarded = true
	for _, req := range []*structs.CSIVolumeDetachRequest{forceDetach, &forwarded} {
		_, err := rpc.Call(t.Context(), s.rpc, structs.CSIVolumeDetach, req)
		wantSocket(t, err, "/run/berth.sock")
		caller := remoteCaller(t, s.rpc, rpc.ByteMux)
		_, err = rpc.Call(opsocket.Mark(t.Context()), caller, structs.CSIVolumeDetach, req)
		wantSocket(t, err, "/run/berth.sock")
	}
	if !s.claimed() || s.getVolume("v").Forced != nil {
		t.Fatal("a denied request released the claim")
	}

	s.overSocket = true
	must(s, structs.CSIVolumeDetach, forceDetach)
	if s.claimed() {
		t.Error("the claim is still there")
	}
}

func TestForcedDetach_WithAProofNeedsNoSocket(t *testing.T) {
	s, n := serverWithLostClaim(t)
	n.report(&structs.ClientCSINodeVolumeResponse{}, nil)
	got := must(s, structs.CSIVolumeDetach, forceDetach)
	if got.Proof != structs.DetachNotMounted || s.claimed() {
		t.Errorf("got %+v; claimed %t", got, s.claimed())
	}
}

func TestForcedDetach_OfAnAttachmentAtASilentNodeNeedsTheSocket(t *testing.T) {
	s, n := serverWithFailedDetach(t)
	s.setNodeDown("n1")
	n.report(nil, silence)
	rejected(s, structs.KindDenied, structs.CSIVolumeDetach, forceDetach)
	if s.attachment() == nil {
		t.Fatal("a denied request deleted the attachment")
	}
	s.overSocket = true
	must(s, structs.CSIVolumeDetach, forceDetach)
	if s.attachment() != nil {
		t.Error("the attachment is still there")
	}
}

func TestClaimRelease_ShowsAForcedReleaseOverAPort(t *testing.T) {
	s, _ := serverWithLostClaim(t)
	got := must(s, structs.VolumeClaimRelease, &structs.VolumeClaimReleaseRequest{
		VolumeID: "v",
		AllocID:  "a1",
		Force:    true,
		DryRun:   true,
	})
	if got.Rejected != "" || len(got.Unproved) == 0 {
		t.Errorf("the dry run is rejected: %q, unproved %q", got.Rejected, got.Unproved)
	}
}
