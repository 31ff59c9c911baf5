package csirandom

import (
	"fmt"

	"berth/state"
	"berth/state/schema"
	"berth/structs/snapgroup"
	"berth/structs/snapshot"
)

// groupCount is the number of groups that a run names.
const groupCount = 2

func (w *world) groupName() string { return fmt.Sprintf("g%d", w.IntN(groupCount)) }

// takeGroup takes a group of one volume or two.
func (w *world) takeGroup() func() error {
	req := &snapgroup.SnapshotGroupCreateRequest{GroupName: w.groupName(), VolumeIDs: []string{w.volumeID()}}
	if other := w.volumeID(); other != req.VolumeIDs[0] {
		req.VolumeIDs = append(req.VolumeIDs, other)
	}
	return func() error {
		_, err := request(w, snapgroup.Create, req)
		return err
	}
}

func (w *world) deleteGroup() func() error {
	req := &snapgroup.SnapshotGroupDeleteRequest{GroupName: w.groupName()}
	return func() error {
		_, err := request(w, snapgroup.Delete, req)
		return err
	}
}

// snapshotOrMember returns a name of a snapshot, at times that of a member of a group.
func (w *world) snapshotOrMember() string {
	if w.IntN(3) > 0 {
		return w.snapshotName()
	}
	return (&snapgroup.GroupSnapshot{Name: w.groupName()}).Member(w.volumeID())
}

// removeGroups requests the deletion of each group that has none.
func (w *world) removeGroups(tx *state.ReadTx) {
	for g := range schema.SnapshotGroups.Scan(tx) {
		if g.State != snapshot.Deleting {
			_, err := request(w, snapgroup.Delete, &snapgroup.SnapshotGroupDeleteRequest{GroupName: g.Name})
			w.record("delete group snapshot %s: %v", g.Name, err)
		}
	}
}
