package hostvol_test

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/hostvol"
)

func valid() *hostvol.DynamicHostVolume {
	return &hostvol.DynamicHostVolume{
		Name:                  "data",
		Namespace:             "default",
		RequestedCapabilities: []*structs.CSIVolumeCapability{{AccessMode: structs.CSISingleNodeWriter}},
	}
}

func TestCheck_NamesEachFault(t *testing.T) {
	for text, edit := range map[string]func(v *hostvol.DynamicHostVolume){
		"name is required": func(v *hostvol.DynamicHostVolume) { v.Name = "" },
		`access_mode "multi-node-multi-writer"`: func(v *hostvol.DynamicHostVolume) {
			v.RequestedCapabilities[0].AccessMode = structs.CSIMultiNodeMultipleWriter
		},
		`attachment_mode "tape" must be`: func(v *hostvol.DynamicHostVolume) {
			v.RequestedCapabilities[0].AttachmentMode = "tape"
		},
		"capability 2: it is null": func(v *hostvol.DynamicHostVolume) {
			v.RequestedCapabilities = append(v.RequestedCapabilities, nil)
		},
		"a capability block is required": func(v *hostvol.DynamicHostVolume) { v.RequestedCapabilities = nil },
		"operator distinct_hosts is for the allocations": func(v *hostvol.DynamicHostVolume) {
			v.Constraints = []*structs.Constraint{{Operand: structs.ConstraintDistinctHosts}}
		},
		"constraint 1: operator": func(v *hostvol.DynamicHostVolume) {
			v.Constraints = []*structs.Constraint{{LTarget: "${node.class}", Operand: "~"}}
		},
		"capacity_max (1 B) must not be below": func(v *hostvol.DynamicHostVolume) {
			v.RequestedCapacityMinBytes = 2
			v.RequestedCapacityMaxBytes = 1
		},
		"node_id": func(v *hostvol.DynamicHostVolume) { v.NodeID = strings.Repeat("n", structs.MaxCSIString+1) },
	} {
		v := valid()
		edit(v)
		v.Canonicalize()
		err := v.Check()
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}

	v := valid()
	v.Canonicalize()
	err := v.Check()
	if err != nil || v.NodePool != structs.DefaultNodePool {
		t.Errorf("got %v and the pool %q, want the default pool", err, v.NodePool)
	}
}

func TestHostVolumeID_IsOneForEachNameOnANode(t *testing.T) {
	id := structs.HostVolumeID("ns", "n1", "data")
	for _, other := range []string{
		structs.HostVolumeID("ns", "n2", "data"),
		structs.HostVolumeID("other", "n1", "data"),
		structs.HostVolumeID("ns", "n1", "more"),
		structs.HostVolumeID("n", "sn1", "data"),
	} {
		if other == id {
			t.Errorf("two volumes have the ID %s", id)
		}
	}
}

func TestOf_HasTheStatesOfTheDialect(t *testing.T) {
	failure := &structs.OperationError{Message: "no space"}
	const down = "its node is down"
	creating := structs.CSIVolume{State: structs.VolumeCreating, LastError: failure}
	failed := structs.CSIVolume{State: structs.VolumeFailed, LastError: failure}
	for name, c := range map[string]struct {
		row           structs.CSIVolume
		blocked       string
		state, reason string
	}{
		"ready":    {structs.CSIVolume{State: structs.VolumeReady}, "", hostvol.Ready, ""},
		"blocked":  {structs.CSIVolume{State: structs.VolumeReady}, down, hostvol.Unavailable, down},
		"creating": {creating, "x", hostvol.Pending, "no space"},
		"failed":   {failed, "x", hostvol.Unavailable, "no space"},
		"deleting": {structs.CSIVolume{State: structs.VolumeDeleting}, "x", hostvol.Unavailable, "x"},
	} {
		c.row.Host = &structs.CSIHost{}
		v := hostvol.Of(&c.row, c.blocked)
		if v.State != c.state || v.Reason != c.reason {
			t.Errorf("%s: got %s, %q, want %s, %q", name, v.State, v.Reason, c.state, c.reason)
		}
	}
}
