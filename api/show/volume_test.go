package show

import (
	"testing"

	"berth/structs"
)

func TestBlockedText_DoesNotRepeatTheError(t *testing.T) {
	failed := &structs.OperationError{Message: "no space"}
	for _, c := range []struct {
		state string
		err   *structs.OperationError
		want  string
	}{
		{structs.VolumeCreating, failed, ""},
		{structs.VolumeDeleting, failed, ""},
		{structs.VolumeDeleting, nil, "volume v: no space"},
		{structs.VolumeFailed, failed, "correct it and create it again, or delete it"},
		{structs.VolumeReady, failed, "volume v: no space"},
	} {
		v := &structs.CSIVolumeDetail{Blocked: "volume v: no space"}
		v.State = c.state
		v.LastError = c.err
		if got := BlockedText(v); got != c.want {
			t.Errorf("%s: got %q, want %q", c.state, got, c.want)
		}
	}
}
