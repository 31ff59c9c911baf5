package csi_test

import (
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

// TestDuty_H13_ControllerGetVolumeOnlyWhereAnnounced: the nodes count only with
// LIST_VOLUMES_PUBLISHED_NODES, and an answer about another volume is a fault.
func TestDuty_H13_ControllerGetVolumeOnlyWhereAnnounced(t *testing.T) {
	for _, c := range []struct {
		caps   []string
		answer string
		known  bool
		fault  string
	}{
		{[]string{"GET_VOLUME", "LIST_VOLUMES_PUBLISHED_NODES"}, "v", true, ""},
		{[]string{"GET_VOLUME"}, "v", false, ""},
		{[]string{"GET_VOLUME"}, "w", false, "is of another volume"},
		{[]string{"GET_VOLUME"}, "", false, "volume_id: is empty"},
		{[]string{"LIST_VOLUMES"}, "v", false, "is not announced"},
	} {
		cfg := both
		cfg.ControllerCaps = c.caps
		p, client := startPlugin(t, cfg)
		p.Answer("ControllerGetVolume", &spec.ControllerGetVolumeResponse{
			Volume: &spec.Volume{VolumeId: c.answer},
			Status: &spec.ControllerGetVolumeResponse_VolumeStatus{PublishedNodeIds: []string{"n"}},
		})
		req := &nodecalls.ClientCSIGetVolumeRequest{ExternalID: "v"}
		got, err := csi.ControllerGetVolume(t.Context(), client, req)
		nodes := got != nil && len(got.PublishedExternalNodeIDs) == 1
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%v %q: error %v, want %q", c.caps, c.answer, err, c.fault)
			}
		case err != nil || got.PublishedNodesKnown != c.known || nodes != c.known:
			t.Errorf("%v: got %+v, %v", c.caps, got, err)
		}
	}
}

func TestDuty_H13_AVolumeThatIsNotThereIsNotFound(t *testing.T) {
	cfg := both
	cfg.ControllerCaps = []string{"GET_VOLUME"}
	p, client := startPlugin(t, cfg)
	p.Fail("ControllerGetVolume", status.Error(codes.NotFound, "gone"))
	_, err := csi.ControllerGetVolume(t.Context(), client, &nodecalls.ClientCSIGetVolumeRequest{ExternalID: "v"})
	if !structs.IsKind(err, structs.KindNotFound) || structs.CodeOf(err) != "NotFound" {
		t.Errorf("error %v", err)
	}
}
