package validate_test

import (
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/validate"
	"berth/structs/validate/field"
)

func TestCheckCommands_NamesTheFault(t *testing.T) {
	csi := &structs.VolumeRequest{Type: structs.VolumeTypeCSI}
	host := &structs.VolumeRequest{Type: structs.VolumeTypeHost}
	command := []string{"lock"}
	for _, c := range []struct {
		fault    string
		volume   *structs.VolumeRequest
		commands structs.SnapshotCommands
	}{
		{"", csi, structs.SnapshotCommands{Pre: command, Timeout: time.Second}},
		{"", csi, structs.SnapshotCommands{Post: command, Timeout: 10 * time.Minute}},
		{"snapshots are of CSI volumes", host, structs.SnapshotCommands{Pre: command, Timeout: time.Second}},
		{"snapshots are of CSI volumes", nil, structs.SnapshotCommands{Pre: command, Timeout: time.Second}},
		{"pre or post is required", csi, structs.SnapshotCommands{Timeout: time.Second}},
		{"pre: the command is empty", csi, structs.SnapshotCommands{Pre: []string{""}, Timeout: time.Second}},
		{"post: the command is empty", csi, structs.SnapshotCommands{Post: []string{""}, Timeout: time.Second}},
		{"timeout 999ms is not from", csi, structs.SnapshotCommands{Pre: command, Timeout: 999 * time.Millisecond}},
		{"timeout 10m1s is not from", csi, structs.SnapshotCommands{Pre: command, Timeout: 601 * time.Second}},
	} {
		f := field.New("")
		validate.CheckSnapshotCommands(f, &c.commands, c.volume)
		err := f.Err()
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), "snapshot: "+c.fault) {
			t.Errorf("got %v, want %q", err, c.fault)
		}
	}
}
