package csi_test

import (
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

var releaseV = &structs.VolumeClaimReleaseRequest{
	VolumeID: "v",
	AllocID:  "a1",
	Reason:   "its power is off",
	By:       "ann@desk",
}

func TestClaimRelease_KeepsTheClaimOfARunningAllocation(t *testing.T) {
	s, _ := serverWithClaim(t)
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.VolumeClaimRelease,
		releaseV), "alloc stop a1")
	if !s.Claimed() {
		t.Error("the claim was released")
	}
}

func TestClaimRelease_ReleasesOneClaimWithTheWordOfItsNode(t *testing.T) {
	s, n := serverWithEndedClaim(t)
	s.AddAlloc("a2", "n1")
	s.Claim("v", "a2", "n1")
	n.Calls = nil
	got := endpointstest.Must(s, structs.VolumeClaimRelease, releaseV)
	if s.Claimed() || got.Proof != structs.DetachLetGo ||
		!slices.Equal(n.Called(), []string{nodecalls.ClientCSINodeDetach.Name}) {
		t.Errorf("got %+v; claimed %t; called %v", got, s.Claimed(), n.Called())
	}
	if csi.Claim(s.Store.Read(), "default", "v", "a2") == nil {
		t.Error("the claim of another allocation was released")
	}
	endpointstest.Rejected(s, structs.KindNotFound, structs.VolumeClaimRelease, releaseV)
}

func TestClaimForce_IsOneClaimOverTheSocketAlone(t *testing.T) {
	s, n := serverWithClaim(t)
	s.AddAlloc("a2", "n1")
	s.Claim("v", "a2", "n1")
	s.SetNodeDown("n1")
	n.Answer = func(string, any, any) error { return structs.Timeoutf("no answer") }
	s.Endpoints.Socket = "/run/berth.sock"
	endpointstest.WantSocket(t, endpointstest.Rejected(s, structs.KindDenied, structs.VolumeClaimForce,
		releaseV), "/run/berth.sock")
	forged := *releaseV
	forged.Force = true
	endpointstest.Rejected(s, structs.KindInvalid, structs.VolumeClaimRelease, &forged)
	endpointstest.Rejected(s, structs.KindUnavailable, structs.VolumeClaimRelease, releaseV)
	if !s.Claimed() {
		t.Fatal("the claim was released without the socket")
	}

	got, err := rpc.Call(opsocket.Mark(t.Context()), s.RPC, structs.VolumeClaimForce, releaseV)
	if err != nil || s.Claimed() || got.Proof != structs.DetachVouched {
		t.Fatalf("over the socket: got %+v, error %v; claimed %t", got, err, s.Claimed())
	}
	if csi.Claim(s.Store.Read(), "default", "v", "a2") == nil {
		t.Error("the claim of another allocation was released")
	}
	if a := state.Alloc(s.Store.Read(), "a1"); a.ClientStatus != structs.AllocLost {
		t.Errorf("the allocation is %s", a.ClientStatus)
	}
	f := s.GetVolume("v").Forced
	if f == nil || f.By != "ann@desk" || f.Reason != "its power is off" ||
		!strings.Contains(f.What, "claim of allocation a1 released") {
		t.Errorf("got the record %+v", f)
	}
}

func TestClaimForce_NeedsAReason(t *testing.T) {
	s, _ := serverWithClaim(t)
	s.SetNodeDown("n1")
	_, err := rpc.Call(opsocket.Mark(t.Context()), s.RPC, structs.VolumeClaimForce,
		&structs.VolumeClaimReleaseRequest{VolumeID: "v", AllocID: "a1"})
	if !structs.IsKind(err, structs.KindInvalid) || !s.Claimed() {
		t.Errorf("got %v; claimed %t", err, s.Claimed())
	}
}

func TestClaimRelease_DryRunSaysWhatNothingProves(t *testing.T) {
	s, n := serverWithClaim(t)
	s.SetNodeDown("n1")
	n.Answer = func(string, any, any) error { return structs.Timeoutf("no answer") }
	before := s.Raft.Len()
	dry := *releaseV
	dry.DryRun = true
	plain := endpointstest.Must(s, structs.VolumeClaimRelease, &dry)
	if !strings.Contains(plain.Rejected, "is down and cannot report") {
		t.Errorf("without force: got %+v", plain)
	}
	dry.Force = true
	forced := endpointstest.Must(s, structs.VolumeClaimRelease, &dry)
	if forced.Rejected != "" ||
		!strings.Contains(strings.Join(forced.Unproved, "\n"), "nothing proves that it does not write") ||
		!strings.Contains(strings.Join(forced.Steps, "\n"), "allocation a1 counts as lost") {
		t.Errorf("with force: got %+v", forced)
	}
	if s.Raft.Len() != before || !s.Claimed() {
		t.Error("a dry run changed something")
	}
}

// serverWithQueue has the volume v with one writer at a time: a1 holds it, a2 and a3 wait.
func serverWithQueue(t *testing.T) *endpointstest.Server {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	v := endpointstest.Volume("v")
	v.ExternalID = "ext-v"
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
		AccessMode:     structs.CSIMultiNodeSingleWriter,
		AttachmentMode: structs.CSIFileSystem,
	}}
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
	for _, id := range []string{"a1", "a2", "a3"} {
		s.AddAlloc(id, "n1")
		endpointstest.Must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Claims: []*structs.CSIClaim{{
				VolumeID:       "v",
				AllocID:        id,
				Mode:           structs.ClaimWrite,
				AccessMode:     structs.CSIMultiNodeSingleWriter,
				AttachmentMode: structs.CSIFileSystem,
			}},
		})
	}
	return s
}

func TestClaimList_SaysWhatHoldsAClaimOrForWhatItWaits(t *testing.T) {
	s := serverWithQueue(t)
	rows := endpointstest.Must(s, structs.VolumeClaimList, &structs.VolumeClaimListRequest{VolumeID: "v"}).Claims
	if len(rows) != 3 {
		t.Fatalf("got %d claims", len(rows))
	}
	for i, want := range []struct {
		alloc, state, cause, text string
		position                  int
	}{
		{"a1", structs.ClaimGranted, "", "", 0},
		{"a2", structs.ClaimWaiting, structs.CauseClaims, "a1", 1},
		{"a3", structs.ClaimWaiting, structs.CauseClaims, "a1", 2},
	} {
		r := rows[i]
		if r.AllocID != want.alloc || r.State != want.state || r.Position != want.position ||
			want.cause != "" && r.Cause != want.cause || !strings.Contains(r.CauseText, want.text) {
			t.Errorf("got %+v, want %+v", r, want)
		}
		if r.NodeName != "name-n1" || r.JobID != "job-"+r.AllocID || r.TaskGroupName != "g" || r.Since == 0 ||
			r.Mode != structs.ClaimWrite || r.ModifyIndex == 0 {
			t.Errorf("the row lacks something: %+v", r)
		}
	}

	s.SetNodeDown("n1")
	rows = endpointstest.Must(s, structs.VolumeClaimList, &structs.VolumeClaimListRequest{AllocID: "a1"}).Claims
	if len(rows) != 1 || rows[0].Cause != structs.CauseNodeDown {
		t.Errorf("on a node that is down: got %+v", rows)
	}
}

func TestClaimList_SelectsAndPages(t *testing.T) {
	s := serverWithQueue(t)
	for name, c := range map[string]struct {
		req  structs.VolumeClaimListRequest
		want []string
	}{
		"an allocation":        {structs.VolumeClaimListRequest{AllocID: "a3"}, []string{"a3"}},
		"both, of a volume":    {structs.VolumeClaimListRequest{VolumeID: "v", AllocID: "a3"}, []string{"a3"}},
		"a node":               {structs.VolumeClaimListRequest{NodeID: "n1"}, []string{"a1", "a2", "a3"}},
		"another node":         {structs.VolumeClaimListRequest{NodeID: "n2"}, nil},
		"another volume":       {structs.VolumeClaimListRequest{VolumeID: "w"}, nil},
		"a filter on the rows": {filtered(`Position == 2`), []string{"a3"}},
	} {
		var got []string
		for _, r := range endpointstest.Must(s, structs.VolumeClaimList, &c.req).Claims {
			got = append(got, r.AllocID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}

	page := &structs.VolumeClaimListRequest{}
	page.PerPage = 2
	first := endpointstest.Must(s, structs.VolumeClaimList, page)
	page.NextToken = first.NextToken
	second := endpointstest.Must(s, structs.VolumeClaimList, page)
	if len(first.Claims) != 2 || len(second.Claims) != 1 || second.Claims[0].Position != 2 {
		t.Errorf("got the pages %+v and %+v", first.Claims, second.Claims)
	}
}

func filtered(expression string) (req structs.VolumeClaimListRequest) {
	req.Filter = expression
	return req
}

func TestClaimList_BlocksUntilAClaimChanges(t *testing.T) {
	s, _ := serverWithEndedClaim(t)
	req := &structs.VolumeClaimListRequest{VolumeID: "v"}
	index := endpointstest.Must(s, structs.VolumeClaimList, req).Index
	answer := make(chan *structs.VolumeClaimListResponse, 1)
	go func() {
		waiting := &structs.VolumeClaimListRequest{VolumeID: "v"}
		waiting.MinIndex = index
		resp, _ := rpc.Call(t.Context(), s.RPC, structs.VolumeClaimList, waiting)
		answer <- resp
	}()
	endpointstest.Must(s, structs.VolumeClaimRelease, releaseV)
	got := <-answer
	if got == nil || len(got.Claims) != 0 || got.Index <= index {
		t.Errorf("got %+v after index %d", got, index)
	}
}
