package audit

import (
	"reflect"
	"testing"

	"berth/structs"
)

func TestRows_HaveTheFieldsThatMayBeShown(t *testing.T) {
	v := &structs.CSIVolume{
		Namespace: "ns", ID: "v",
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Name:                 "name",
			PluginID:             "plugin",
			ExternalID:           "ext",
			RequestedCapacityMin: 2,
			RequestedCapacityMax: 3,
			RequestedCapabilities: []*structs.CSIVolumeCapability{
				nil, {AccessMode: "single-node-writer", AttachmentMode: "block-device"},
			},
			MountOptions:  &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"secret"}},
			SealedSecrets: &structs.Sealed{},
			SecretsFrom:   "path",
			Parameters:    map[string]string{"p": "secret"},
			Context:       map[string]string{"c": "secret"},
			CloneID:       "clone",
			SnapshotID:    "snap",
			OnNodeLoss:    "fence",
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: "ready", Capacity: 1},
	}
	v.ModifyIndex = 4
	want := volume{
		Row:          "volume",
		Namespace:    "ns",
		ID:           "v",
		Name:         "name",
		Plugin:       "plugin",
		ExternalID:   "ext",
		State:        "ready",
		Capacity:     1,
		CapacityMin:  2,
		CapacityMax:  3,
		Capabilities: []string{"single-node-writer block-device"},
		FSType:       "ext4",
		MountFlags:   redacted,
		Secrets:      redacted,
		SecretsFrom:  "path",
		Parameters:   map[string]string{"p": redacted},
		Context:      map[string]string{"c": redacted},
		CloneID:      "clone",
		SnapshotID:   "snap",
		OnNodeLoss:   "fence",
		ModifyIndex:  4,
	}
	if got := volumeOf(v); !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v, want %+v", *got, want)
	}

	bare := volumeOf(&structs.CSIVolume{
		CSIVolumeSpec: structs.CSIVolumeSpec{MountOptions: &structs.CSIMountOptions{}},
	})
	if !reflect.DeepEqual(*bare, volume{Row: "volume"}) {
		t.Errorf("got %+v of a volume without anything", *bare)
	}
	if open := volumeOf(&structs.CSIVolume{
		CSIVolumeSpec: structs.CSIVolumeSpec{Secrets: structs.Secrets{"k": "v"}},
	}); open.Secrets != redacted {
		t.Errorf("got %+v of a volume with secrets in plain form", *open)
	}

	c := &structs.CSIClaim{
		Namespace:  "ns",
		VolumeID:   "v",
		AllocID:    "a",
		NodeID:     "n",
		JobID:      "j",
		Mode:       "write",
		State:      "granted",
		GrantIndex: 5,
		EndTime:    6,
	}
	c.ModifyIndex = 7
	is := claim{
		Row:         "claim",
		Namespace:   "ns",
		Volume:      "v",
		Alloc:       "a",
		Node:        "n",
		Job:         "j",
		Mode:        "write",
		State:       "granted",
		GrantIndex:  5,
		EndTime:     6,
		ModifyIndex: 7,
	}
	if got := claimOf(c); *got != is {
		t.Errorf("got %+v, want %+v", *got, is)
	}
}
