package csi_test

import (
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// aPlace asks for the space in zone b.
func aPlace() *nodecalls.ClientCSICapacityRequest {
	return &nodecalls.ClientCSICapacityRequest{
		Parameters: map[string]string{"type": "ssd"},
		Capability: &structs.CSIVolumeCapability{
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		},
		Topology: &structs.CSITopology{Segments: map[string]string{"zone": "b"}},
	}
}

// TestDuty_H17_GetCapacityAsksLikeTheCreation has a plugin with topologies and one without.
func TestDuty_H17_GetCapacityAsksLikeTheCreation(t *testing.T) {
	for _, topology := range []map[string]string{{"zone": "b"}, nil} {
		var asked *spec.GetCapacityRequest
		_, c := startPlugin(t, csitest.Config{
			Controller: true,
			Node:       true,
			Topology:   topology,
			Capacity: func(req *spec.GetCapacityRequest) *spec.GetCapacityResponse {
				asked = req
				return &spec.GetCapacityResponse{AvailableCapacity: 7, MaximumVolumeSize: wrapperspb.Int64(5)}
			},
		})
		got, err := c.GetCapacity(t.Context(), aPlace())
		if err != nil || got.Available != 7 || got.MaxVolume != 5 {
			t.Fatalf("got %+v, %v", got, err)
		}
		if zone := asked.GetAccessibleTopology().GetSegments()["zone"]; zone != topology["zone"] {
			t.Errorf("asked for zone %q, want %q", zone, topology["zone"])
		}
		if asked.GetParameters()["type"] != "ssd" || len(asked.GetVolumeCapabilities()) != 1 {
			t.Errorf("asked with %v", asked)
		}
	}
}

func TestGetCapacity_ChecksTheAnswer(t *testing.T) {
	answer := &spec.GetCapacityResponse{}
	cfg := csitest.Config{
		Controller: true,
		Capacity:   func(*spec.GetCapacityRequest) *spec.GetCapacityResponse { return answer },
	}
	_, c := startPlugin(t, cfg)
	for _, faulty := range []*spec.GetCapacityResponse{
		{AvailableCapacity: -1},
		{AvailableCapacity: 1, MaximumVolumeSize: wrapperspb.Int64(-1)},
	} {
		answer = faulty
		got, err := c.GetCapacity(t.Context(), aPlace())
		if err == nil {
			t.Errorf("%v is read as %+v", faulty, got)
		}
	}

	answer = &spec.GetCapacityResponse{AvailableCapacity: 9, MaximumVolumeSize: wrapperspb.Int64(0)}
	got, err := c.GetCapacity(t.Context(), aPlace())
	if err != nil || got.Available != 0 {
		t.Errorf("a largest volume of 0 bytes: got %+v, %v", got, err)
	}

	cfg.ControllerCaps = []string{"CREATE_DELETE_VOLUME"}
	_, other := startPlugin(t, cfg)
	_, err = other.GetCapacity(t.Context(), aPlace())
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a plugin without GET_CAPACITY: %v", err)
	}
}
