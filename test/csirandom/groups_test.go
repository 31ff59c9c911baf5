package csirandom

import (
	"fmt"

	"berth/state"
	"berth/state/schema"
	"berth/structs/storage"
)

// groupCount is the number of groups that a run names.
const groupCount = 2

func (w *world) groupName() string { return fmt.Sprintf("g%d", w.IntN(groupCount)) }

// takeGroup takes a group of one volume or two.
func (w *world) takeGroup() func() error {
	req := &storage.SnapshotGroupCreateRequest{GroupName: w.groupName(), VolumeIDs: []string{w.volumeID()}}
	if other := w.volumeID(); other != req.VolumeIDs[0] {
		req.VolumeIDs = append(req.VolumeIDs, other)
	}
	return func() error {
		_, err := request(w, storage.SnapshotGroupCreate, req)
		return err
	}
}

func (w *world) deleteGroup() func() error {
	req := &storage.SnapshotGroupDeleteRequest{GroupName: w.groupName()}
	return func() error {
		_, err := request(w, storage.SnapshotGroupDelete, req)
		return err
	}
}

// snapshotOrMember returns a name of a snapshot, at times that of a member of a group.
func (w *world) snapshotOrMember() string {
	if w.IntN(3) > 0 {
		return w.snapshotName()
	}
	return (&storage.GroupSnapshot{Name: w.groupName()}).Member(w.volumeID())
}

// removeGroups requests the deletion of each group that has none.
func (w *world) removeGroups(tx *state.ReadTx) {
	for g := range schema.SnapshotGroups.Scan(tx) {
		if g.State != storage.SnapshotDeleting {
			_, err := request(w, storage.SnapshotGroupDelete, &storage.SnapshotGroupDeleteRequest{GroupName: g.Name})
			w.record("delete group snapshot %s: %v", g.Name, err)
		}
	}
}
