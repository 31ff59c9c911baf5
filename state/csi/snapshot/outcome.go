package snapshot

import (
	"fmt"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// Outcome records the outcome of a call of the plugin. It ignores the outcome if the row is another one, or
// no longer needs the call. A creation that ended after the request to delete still tells the ID to delete.
func Outcome(tx *mvcc.WriteTx, p *storage.SnapshotOutcomeEntry) error {
	s := csi.Snapshot(tx, p.RequestNamespace(), p.Name)
	if s == nil || s.CreateIndex != p.RowIndex {
		return nil
	}

	s = s.Copy()
	EndCall(&s.Progress, &p.Outcome)
	switch {
	case p.Op == storage.OpSnapshotDelete && p.Err == nil:
		recordDeletion(tx, s, p.Now)
	case p.Op == storage.OpSnapshotDelete:
		recordUndeleted(tx, s, p)
	case p.Op != storage.OpSnapshotCreate && p.Op != storage.OpSnapshotLearn:
		return structs.Invalidf("%q is no operation on a snapshot", p.Op)
	case p.Answer != nil && p.Answer.ID == "":
		return structs.Invalidf("the answer about snapshot %q has no ID", p.Name)
	case p.Err != nil:
		recordUncut(tx, s, p)
	case p.Answer == nil:
		recordNothing(tx, s, p.Now)
	default:
		recordCut(tx, s, p)
	}
	return nil
}

// recordCut stores the answer of the plugin to a creation.
func recordCut(tx *mvcc.WriteTx, s *storage.VolumeSnapshot, p *storage.SnapshotOutcomeEntry) {
	if s.Next() != storage.OpSnapshotCreate && s.Next() != storage.OpSnapshotLearn {
		return
	}

	other := csi.SnapshotByExternal(tx, s.PluginID, p.Answer.ID)
	if other != nil && (other.Namespace != s.Namespace || other.Name != s.Name) {
		recordTaken(tx, s, p)
		return
	}

	s.SizeBytes = p.Answer.SizeBytes
	s.AccessibleTopologies = p.Answer.AccessibleTopologies
	Cut(&s.Progress, &p.Outcome, Answer{
		ID:      p.Answer.ID,
		CutTime: p.Answer.CreateTime * 1e9,
		Ready:   p.Answer.IsReady,
	}, p.Now)
	settle(tx, s, p.Now)
}

// recordTaken is for an answer with the ID of another row: without it, a deletion of this row cannot destroy
// the snapshot of the other.
func recordTaken(tx *mvcc.WriteTx, s *storage.VolumeSnapshot, p *storage.SnapshotOutcomeEntry) {
	if s.State == storage.SnapshotDeleting {
		drop(tx, s, p.Now)
		return
	}
	Fail(&s.Progress,
		fmt.Sprintf("plugin %q has answered with a snapshot that has another name already", s.PluginID))
	settle(tx, s, p.Now)
}

// settle stores the row. The volume may have waited for the end of its snapshot to be deleted.
func settle(tx *mvcc.WriteTx, s *storage.VolumeSnapshot, now int64) {
	schema.Snapshots.Put(tx, s)
	if s.Next() != storage.OpSnapshotCreate {
		csi.RetryReclaim(tx, s.Namespace, s.VolumeID, now)
	}
}

// recordUncut stores the failure of a creation.
func recordUncut(tx *mvcc.WriteTx, s *storage.VolumeSnapshot, p *storage.SnapshotOutcomeEntry) {
	if s.Next() != storage.OpSnapshotCreate && s.Next() != storage.OpSnapshotLearn {
		return
	}
	Uncut(&s.Progress, &p.Outcome)
	settle(tx, s, p.Now)
}

// recordNothing is for a creation to be undone that has left nothing.
func recordNothing(tx *mvcc.WriteTx, s *storage.VolumeSnapshot, now int64) {
	if s.Next() == storage.OpSnapshotLearn {
		drop(tx, s, now)
	}
}

func recordDeletion(tx *mvcc.WriteTx, s *storage.VolumeSnapshot, now int64) {
	switch {
	case s.State == storage.SnapshotDeleting:
		drop(tx, s, now)
	case s.Next() == storage.OpSnapshotDelete: // the remains of a failed one
		RemainsGone(&s.Progress)
		settle(tx, s, now)
	}
}

// recordUndeleted stores the failure of a deletion.
func recordUndeleted(tx *mvcc.WriteTx, s *storage.VolumeSnapshot, p *storage.SnapshotOutcomeEntry) {
	if s.Next() != storage.OpSnapshotDelete {
		return
	}
	Undeleted(&s.Progress, &p.Outcome)
	schema.Snapshots.Put(tx, s)
}

// CheckSnapshots checks the invariants of the rows: a state that exists, one row for each snapshot of a
// plugin, and the ID of each snapshot that is cut.
func CheckSnapshots(c *schema.Report) {
	schema.CheckIndexes(c, schema.Snapshots)
	external := map[[2]string]string{}
	for s := range schema.Snapshots.Scan(c) {
		title := s.Namespace + "/" + s.Name
		if s.ExternalID != "" {
			key := [2]string{s.PluginID, s.ExternalID}
			c.Want(external[key] == "", "snapshots %s and %s are both %s of plugin %s",
				external[key], title, s.ExternalID, s.PluginID)
			external[key] = title
		}

		switch s.State {
		case storage.SnapshotPending, storage.SnapshotReady:
			c.Want(s.ExternalID != "", "snapshot %s is %s and has no ID at its plugin", title, s.State)
		case storage.SnapshotCreating:
			c.Want(s.ExternalID == "", "snapshot %s is creating and cut", title)
		case storage.SnapshotFailed, storage.SnapshotDeleting:
		default:
			c.Want(false, "snapshot %s: state %q", title, s.State)
		}
		c.Want(s.Call == nil || s.Unsettled(), "snapshot %s is %s and called", title, s.State)
		c.Want(csi.Plugin(c, s.PluginID) != nil, "snapshot %s: plugin %s has no row", title, s.PluginID)
	}
}
