package groups

import (
	"errors"
	"strings"
	"testing"

	"berth/plugins/hostpath/records"
)

// A volume that stays frozen blocks its tasks, so the group is no success.
func TestCopyAll_FailsIfAVolumeStaysFrozen(t *testing.T) {
	s := &Service{Driver: Driver{
		Record: func(string, string) records.Head { return records.Head{} },
		Freeze: func(v *records.Volume) (func() error, error) {
			return func() error { return errors.New("cannot thaw " + v.ID) }, nil
		},
		Copy:  func(n *records.Snapshot, _ *records.Volume) (*records.Snapshot, error) { return n, nil },
		Crash: func(string) {},
	}}
	volumes := []*records.Volume{{Head: records.Head{ID: "a"}}, {Head: records.Head{ID: "b"}}}
	_, err := s.copyAll(&records.Group{}, volumes)
	for _, want := range []string{"cannot thaw a", "cannot thaw b"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
