package hostpath

import (
	"errors"
	"strings"
	"testing"

	"berth/plugins/hostpath/disk"
)

// A volume that stays frozen blocks its tasks, so the group is no success.
func TestCopyAll_FailsIfAVolumeStaysFrozen(t *testing.T) {
	s := &groupController{groupDriver: groupDriver{
		Record: func(string, string) disk.Head { return disk.Head{} },
		Freeze: func(v *disk.Volume) (func() error, error) {
			return func() error { return errors.New("cannot thaw " + v.ID) }, nil
		},
		Copy:  func(n *disk.Snapshot, _ *disk.Volume) (*disk.Snapshot, error) { return n, nil },
		Crash: func(string) {},
	}}
	volumes := []*disk.Volume{{Head: disk.Head{ID: "a"}}, {Head: disk.Head{ID: "b"}}}
	_, err := s.copyAll(&disk.Group{}, volumes)
	for _, want := range []string{"cannot thaw a", "cannot thaw b"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
