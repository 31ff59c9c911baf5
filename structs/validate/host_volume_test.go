package validate_test

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

func validHostVolume() *storage.DynamicHostVolume {
	return &storage.DynamicHostVolume{
		Name:                  "data",
		Namespace:             "default",
		RequestedCapabilities: []*structs.CSIVolumeCapability{{AccessMode: structs.CSISingleNodeWriter}},
	}
}

func TestHostVolume_NamesEachFault(t *testing.T) {
	for text, edit := range map[string]func(v *storage.DynamicHostVolume){
		"name is required": func(v *storage.DynamicHostVolume) { v.Name = "" },
		`access_mode "multi-node-multi-writer"`: func(v *storage.DynamicHostVolume) {
			v.RequestedCapabilities[0].AccessMode = structs.CSIMultiNodeMultipleWriter
		},
		`attachment_mode "tape" must be`: func(v *storage.DynamicHostVolume) {
			v.RequestedCapabilities[0].AttachmentMode = "tape"
		},
		"capability 2: it is null": func(v *storage.DynamicHostVolume) {
			v.RequestedCapabilities = append(v.RequestedCapabilities, nil)
		},
		"a capability block is required": func(v *storage.DynamicHostVolume) { v.RequestedCapabilities = nil },
		"operator distinct_hosts is for the allocations": func(v *storage.DynamicHostVolume) {
			v.Constraints = []*structs.Constraint{{Operand: structs.ConstraintDistinctHosts}}
		},
		"constraint 1: operator": func(v *storage.DynamicHostVolume) {
			v.Constraints = []*structs.Constraint{{LTarget: "${node.class}", Operand: "~"}}
		},
		"capacity_max (1 B) must not be below": func(v *storage.DynamicHostVolume) {
			v.RequestedCapacityMinBytes = 2
			v.RequestedCapacityMaxBytes = 1
		},
		"node_id": func(v *storage.DynamicHostVolume) { v.NodeID = strings.Repeat("n", structs.MaxCSIString+1) },
	} {
		v := validHostVolume()
		edit(v)
		v.Canonicalize()
		err := validate.HostVolume(v)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}

	v := validHostVolume()
	v.Canonicalize()
	err := validate.HostVolume(v)
	if err != nil || v.NodePool != structs.DefaultNodePool {
		t.Errorf("got %v and the pool %q, want the default pool", err, v.NodePool)
	}
}
