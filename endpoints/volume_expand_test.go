package endpoints

import (
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
)

// An expansion is complete only when the nodes with the volume have grown its content. The nodes report this
// themselves.
func TestAnExpansion_WaitsForTheNodesThatHaveTheVolume(t *testing.T) {
	config := quick()
	config.volumeTimeout = config.holdTimeout
	s := newServer(t, config)
	s.addNode("n1", "a")
	s.addAlloc("a1", "n1")
	v := s.addVolume("v").Copy()
	s.claim("v", "a1", "n1")
	stop := s.leader(func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		return &structs.CSIVolumeOutcome{Op: "expand", Capacity: v.RequestedCapacityMin,
			NodeExpandBytes: v.RequestedCapacityMin}
	})
	defer stop()
	grow := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
	v.ModifyIndex, v.RequestedCapacityMin = 0, 2<<30
	refused(s, structs.KindTimeout, structs.CSIVolumeCreate, grow)
	said := &structs.CSINodeExpandOutcome{VolumeID: "v", AllocID: "a1", NodeID: "n1", SecretID: secretOf("n1"),
		Bytes: 2 << 30,
		Err: &structs.OperationError{Message: "it is broken" + strings.Repeat("x", 1<<20),
			Kind: structs.KindInternal}}
	must(s, structs.CSIVolumeNodeExpanded, said)
	if err := refused(s, structs.KindInternal, structs.CSIVolumeCreate, grow); !strings.Contains(err.Error(),
		"it is broken") {
		t.Errorf("got %v", err)
	}
	if c := state.Claim(s.store.Read(), "default", "v",
		"a1"); len(c.ExpandError.Message) > structs.MaxErrorText+3 {
		t.Errorf("the error has %d bytes", len(c.ExpandError.Message))
	}
	said.Err = nil
	for want, sizes := range map[string][2]int64{
		`volume "v": plugin "` + v.PluginID + `": NodeExpandVolume: capacity_bytes -1`:   {2 << 30, -1},
		"capacity_bytes 1152921504606846977 must be from 0 to 1152921504606846976 bytes": {2 << 30, 1<<60 + 1},
		"capacity_bytes 1.0 GiB must be at least the 2.0 GiB requested":                  {2 << 30, 1 << 30},
		"the requested size 4611686018427387904 must be from 0 to":                       {1 << 62, 0},
	} {
		said.Bytes, said.Capacity = sizes[0], sizes[1]
		err := refused(s, structs.KindInvalid, structs.CSIVolumeNodeExpanded, said)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
	said.Bytes, said.Capacity = 2<<30, 0
	said.SecretID = "another's"
	refused(s, structs.KindDenied, structs.CSIVolumeNodeExpanded, said)
	said.SecretID = secretOf("n1")
	must(s, structs.CSIVolumeNodeExpanded, said)
	got := must(s, structs.CSIVolumeCreate, grow)
	if made := got.Volumes[0]; made.NodeExpandBytes != 0 || made.Capacity != 2<<30 {
		t.Errorf("got %+v", made)
	}
}
