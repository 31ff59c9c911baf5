package query

import (
	"testing"

	"berth/structs"
	"berth/structs/storage"
)

// A group names each of its volumes, so a caller who may see only some of them does not see it.
func TestSeen_LeavesOutAGroupWithAHiddenVolume(t *testing.T) {
	q := &structs.QueryOptions{Sees: func(namespace, id string) bool {
		return namespace == "default" && id != "hidden"
	}}
	keep := seen(q, nil)
	for _, c := range []struct {
		volumes []string
		want    bool
	}{
		{[]string{"v", "w"}, true},
		{[]string{"v", "hidden"}, false},
		{[]string{"hidden", "v"}, false},
	} {
		g := &storage.GroupSnapshot{Namespace: "default", VolumeIDs: c.volumes}
		if got := keep(g); got != c.want {
			t.Errorf("the group of %v is listed: %v", c.volumes, got)
		}
	}
}
