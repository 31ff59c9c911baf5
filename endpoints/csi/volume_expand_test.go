package csi_test

import (
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/state/csi"
	"berth/structs"
)

// An expansion is complete only when the nodes with the volume have grown its content. The nodes report this
// themselves.
func TestVolumeExpand_WaitsForTheNodesOfTheVolume(t *testing.T) {
	config := endpointstest.QuickSettings()
	config.VolumeTimeout = config.HoldTimeout
	s := endpointstest.New(t, config)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	v := s.AddVolume("v").Copy()
	s.Claim("v", "a1", "n1")
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		return &structs.CSIVolumeOutcome{
			Op:              "expand",
			Capacity:        v.RequestedCapacityMin,
			NodeExpandBytes: v.RequestedCapacityMin,
		}
	})
	defer stop()
	grow := endpointstest.RegisterRequest(v)
	v.ModifyIndex, v.RequestedCapacityMin = 0, 2<<30
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate, grow)
	// The request may end before the controller has answered. The nodes expand after that.
	for {
		tx := s.Store.ReadWatched()
		if csi.Volume(tx, "default", "v").NodeExpandBytes == 2<<30 {
			break
		}
		if err := s.Store.Wait(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	reported := &structs.CSINodeExpandOutcome{
		VolumeID: "v",
		AllocID:  "a1",
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Bytes:    2 << 30,
		Err: &structs.OperationError{
			Message: "it is broken" + strings.Repeat("x", 1<<20),
			Kind:    structs.KindInternal,
		},
	}
	endpointstest.Must(s, structs.CSIVolumeNodeExpanded, reported)
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindInternal, structs.CSIVolumeCreate,
		grow), "it is broken")
	c := csi.Claim(s.Store.Read(), "default", "v", "a1")
	if len(c.ExpandError.Message) > structs.MaxErrorText+3 {
		t.Errorf("the error has %d bytes", len(c.ExpandError.Message))
	}
	reported.Err = nil
	for want, sizes := range map[string][2]int64{
		`volume "v": plugin "` + v.PluginID + `": NodeExpandVolume: capacity_bytes -1`:   {2 << 30, -1},
		"capacity_bytes 1152921504606846977 must be from 0 to 1152921504606846976 bytes": {2 << 30, 1<<60 + 1},
		"capacity_bytes 1.0 GiB must be at least the 2.0 GiB requested":                  {2 << 30, 1 << 30},
		"the requested size 4611686018427387904 must be from 0 to":                       {1 << 62, 0},
	} {
		reported.Bytes = sizes[0]
		reported.Capacity = sizes[1]
		err := endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeNodeExpanded, reported)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
	reported.Bytes, reported.Capacity = 2<<30, 0
	reported.SecretID = "another's"
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIVolumeNodeExpanded, reported)
	reported.SecretID = endpointstest.SecretOf("n1")
	endpointstest.Must(s, structs.CSIVolumeNodeExpanded, reported)
	got := endpointstest.Must(s, structs.CSIVolumeCreate, grow)
	if made := got.Volumes[0]; made.NodeExpandBytes != 0 || made.Capacity != 2<<30 {
		t.Errorf("got %+v", made)
	}
}
