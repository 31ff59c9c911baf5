package job_test

import (
	"slices"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/rpc"
	"berth/structs"
)

// An allocation that has ended names the volumes that its node has not released, and a successor that waits
// for their release is told of it. A lost node releases nothing, and nothing waits for it.
func TestAllocGet_NamesTheVolumesThatAreHeld(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddVolume("v")
	for id, node := range map[string]string{"a1": "n1", "a2": "n2"} {
		s.AddAlloc(id, node)
		s.Claim("v", id, node)
	}
	get := &structs.AllocGetRequest{AllocID: "a1"}
	if got := endpointstest.Must(s, structs.AllocGet, get); got.HeldVolumes != nil {
		t.Errorf("while it runs: %q", got.HeldVolumes)
	}
	s.EndAlloc("a1", "n1")
	s.EndAlloc("a2", "n2")
	got := endpointstest.Must(s, structs.AllocGet, get)
	if !slices.Equal(got.HeldVolumes, []string{"v"}) {
		t.Errorf("after its end: %q", got.HeldVolumes)
	}
	get.MinIndex = got.Index
	answered := make(chan *structs.AllocGetResponse, 1)
	go func() {
		resp, err := rpc.Call(t.Context(), s.RPC, structs.AllocGet, get)
		if err != nil {
			t.Error(err)
		}
		answered <- resp
	}()
	release := &structs.CSIVolumeUnpublishRequest{NodeID: "n1", SecretID: endpointstest.SecretOf("n1")}
	release.Claims = []structs.CSIClaimKey{{Namespace: structs.DefaultNamespace, VolumeID: "v", AllocID: "a1"}}
	endpointstest.Must(s, structs.CSIVolumeUnpublish, release)
	if got := <-answered; got != nil && got.HeldVolumes != nil {
		t.Errorf("after the release: %q", got.HeldVolumes)
	}
	s.SetNodeDown("n2")
	if got := endpointstest.Must(s, structs.AllocGet,
		&structs.AllocGetRequest{AllocID: "a2"}); got.HeldVolumes != nil {
		t.Errorf("on a node that is down: %q", got.HeldVolumes)
	}
}
