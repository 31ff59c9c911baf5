package snapshot

import (
	"fmt"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// Note records the node of a call for a snapshot before the call is made. A row that does not need the call
// any more is a conflict, because the next call would not wait for a call without a row.
func Note(tx *mvcc.WriteTx, p *storage.SnapshotNoteEntry) error {
	return note(tx, storage.KindSnapshot, p)
}

// GroupNote is Note for a group.
func GroupNote(tx *mvcc.WriteTx, p *storage.SnapshotNoteEntry) error {
	return note(tx, storage.KindGroup, p)
}

func note(tx *mvcc.WriteTx, kind string, p *storage.SnapshotNoteEntry) error {
	o := find(tx, kind, p.RequestNamespace(), p.Name)
	if o == nil || o.index != p.RowIndex || p.Call == nil || o.NextFor(kind) != p.Call.Op {
		return structs.Conflictf("%s %q has changed meanwhile", kind, p.Name)
	}
	o.Unanswered = o.Unanswered || o.Call != nil
	o.Call = p.Call
	o.Called = o.Called || o.Step() == storage.StepCreate
	o.store(tx)
	return nil
}

// Outcome records the outcome of a call of the plugin for a snapshot. It ignores the outcome if the row is
// another one, or no longer needs the call. A creation that ended after the request to delete still tells the
// IDs to delete.
func Outcome(tx *mvcc.WriteTx, p *storage.SnapshotOutcomeEntry) error {
	return record(tx, storage.KindSnapshot, p)
}

// GroupOutcome is Outcome for a group.
func GroupOutcome(tx *mvcc.WriteTx, p *storage.SnapshotOutcomeEntry) error {
	return record(tx, storage.KindGroup, p)
}

func record(tx *mvcc.WriteTx, kind string, p *storage.SnapshotOutcomeEntry) error {
	o := find(tx, kind, p.RequestNamespace(), p.Name)
	if o == nil || o.index != p.RowIndex {
		return nil
	}

	// The call of a final error, or of an answer, has ended.
	if !p.KeepCall || p.Final || p.Err == nil {
		o.Call = nil
	}
	switch {
	case p.Op == storage.Op(storage.StepDelete, kind):
		o.recordDeletion(tx, p)
	case p.Op != storage.Op(storage.StepCreate, kind) && p.Op != storage.Op(storage.StepLearn, kind):
		return structs.Invalidf("%q is no operation on a %s", p.Op, kind)
	case p.Err != nil:
		o.recordUncut(tx, p)
	case p.Answer != nil:
		return o.recordCut(tx, p)
	case o.Step() == storage.StepLearn: // the creation to be undone has left nothing
		o.drop(tx, p.Now)
	}
	return nil
}

// recordCut stores the answer of the plugin to a creation, with the ID of each member. One that comes after
// the request to delete still tells the IDs to delete.
func (o *object) recordCut(tx *mvcc.WriteTx, p *storage.SnapshotOutcomeEntry) error {
	if !o.creates() {
		return nil
	}

	fault := p.Answer.Fault(Sources(o.members))
	if p.Answer.ID == "" {
		fault = "has no ID"
	}
	if fault != "" {
		return structs.Invalidf("the answer about %s %s", o.title(), fault)
	}
	for _, m := range o.members {
		other := csi.SnapshotByExternal(tx, o.plugin, p.Answer.Of(m.SourceExternalID).ID)
		if other != nil && (other.Namespace != m.Namespace || other.Name != m.Name) {
			o.recordTaken(tx, other, p.Now)
			return nil
		}
	}

	if o.ExternalID == "" {
		o.Consistency = p.Consistency
	}
	o.ExternalID = p.Answer.ID
	o.CutTime = p.Answer.CreateTime * 1e9
	o.LastError = nil
	o.Unanswered = false
	switch {
	case o.State == storage.SnapshotDeleting:
	case p.Answer.IsReady:
		o.State = storage.SnapshotReady
		o.ReadyTime = p.Now
	default:
		o.State = storage.SnapshotPending
		o.Polls++
		o.PollTime = p.PollTime
	}
	for _, m := range o.members {
		cut := p.Answer.Of(m.SourceExternalID)
		m.ExternalID = cut.ID
		m.SizeBytes = cut.SizeBytes
		m.CutTime = o.CutTime
		m.AccessibleTopologies = cut.AccessibleTopologies
	}
	o.settle(tx, p.Now)
	return nil
}

// recordTaken is for an answer with the ID of another row: without it, a deletion of this object cannot
// destroy the snapshot of the other.
func (o *object) recordTaken(tx *mvcc.WriteTx, other *storage.VolumeSnapshot, now int64) {
	if o.State == storage.SnapshotDeleting {
		o.drop(tx, now)
		return
	}
	o.State = storage.SnapshotFailed
	o.Called = false
	o.Reason = fmt.Sprintf("plugin %q has answered with a snapshot that has another name already", o.plugin)
	if o.group != nil {
		o.Reason = fmt.Sprintf("plugin %q has answered with a snapshot that is %s/%s already",
			o.plugin, other.Namespace, other.Name)
	}
	o.settle(tx, now)
}

// recordUncut stores the failure of a creation. A final error proves nothing about an earlier call once the
// deletion is requested: the loop repeats the call, and decides by its error.
func (o *object) recordUncut(tx *mvcc.WriteTx, p *storage.SnapshotOutcomeEntry) {
	if !o.creates() {
		return
	}
	o.LastError = csi.CountFailure(o.LastError, p.Err)
	if p.Final && o.State != storage.SnapshotDeleting {
		o.State = storage.SnapshotFailed
		o.Reason = p.Err.Message
		// A transport answers RESOURCE_EXHAUSTED to a large message, too: then the plugin has cut it. The first
		// of two calls may have had another outcome than the last.
		o.Called = p.Err.Code == structs.CSICodeExhausted || o.Unanswered
		if o.ExternalID != "" {
			o.LastError = nil // the deletion of the remains has errors of its own
		}
	}
	o.settle(tx, p.Now)
}

// recordDeletion stores the end of a deletion. A ready object whose deletion the plugin rejects for good
// stays.
func (o *object) recordDeletion(tx *mvcc.WriteTx, p *storage.SnapshotOutcomeEntry) {
	switch {
	case p.Err == nil && o.State == storage.SnapshotDeleting:
		o.drop(tx, p.Now)
	case o.Step() != storage.StepDelete:
	case p.Err == nil: // the remains of a failed one are gone
		o.ExternalID = ""
		o.Called = false
		o.LastError = nil
		o.settle(tx, p.Now)
	default:
		o.LastError = csi.CountFailure(o.LastError, p.Err)
		if p.Final && o.ReadyTime != 0 {
			o.State = storage.SnapshotReady
		}
		o.store(tx)
	}
}
