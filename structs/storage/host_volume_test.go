package storage_test

import (
	"testing"

	"berth/structs"
	"berth/structs/storage"
)

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
	in := func(state string, lastError *structs.OperationError) structs.CSIVolume {
		return structs.CSIVolume{
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: state},
			CSIVolumeStatus: structs.CSIVolumeStatus{LastError: lastError},
		}
	}
	creating := in(structs.VolumeCreating, failure)
	failed := in(structs.VolumeFailed, failure)
	for name, c := range map[string]struct {
		row           structs.CSIVolume
		blocked       string
		state, reason string
	}{
		"ready":    {in(structs.VolumeReady, nil), "", storage.HostVolumeReady, ""},
		"blocked":  {in(structs.VolumeReady, nil), down, storage.HostVolumeUnavailable, down},
		"creating": {creating, "x", storage.HostVolumePending, "no space"},
		"failed":   {failed, "x", storage.HostVolumeUnavailable, "no space"},
		"deleting": {in(structs.VolumeDeleting, nil), "x", storage.HostVolumeUnavailable, "x"},
	} {
		c.row.Host = &structs.CSIHost{}
		v := storage.HostVolumeOf(&c.row, c.blocked)
		if v.State != c.state || v.Reason != c.reason {
			t.Errorf("%s: got %s, %q, want %s, %q", name, v.State, v.Reason, c.state, c.reason)
		}
	}
}
