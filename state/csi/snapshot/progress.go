package snapshot

import (
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// These are the transitions that a snapshot and a group of snapshots have in common. The caller stores the
// row.

// Begun is what is known of an object before its first call.
func Begun(now int64) storage.Progress {
	return storage.Progress{State: storage.SnapshotCreating, RequestTime: now}
}

// TryAgain lets a failed object be created again. The plugin gets the same name, and finds what an earlier
// call has left.
func TryAgain(p *storage.Progress, now int64) {
	p.State = storage.SnapshotCreating
	p.Reason = ""
	p.LastError = nil
	p.RequestTime = now
}

// NoteCall records a call before it is made.
func NoteCall(p *storage.Progress, call *structs.CSICall, creates bool) {
	p.Unanswered = p.Unanswered || p.Call != nil
	p.Call = call
	p.Called = p.Called || creates
}

// EndCall ends the call of an outcome. That of a final error, or of an answer, has ended.
func EndCall(p *storage.Progress, o *storage.Outcome) {
	if !o.KeepCall || o.Final || o.Err == nil {
		p.Call = nil
	}
}

// Answer is what a plugin has answered to a creation.
type Answer struct {
	ID      string
	CutTime int64 // in UnixNano
	Ready   bool
}

// Cut records an answer. One that comes after the request to delete still tells the ID to delete.
func Cut(p *storage.Progress, o *storage.Outcome, answer Answer, now int64) {
	if p.ExternalID == "" {
		p.Consistency = o.Consistency
	}
	p.ExternalID = answer.ID
	p.CutTime = answer.CutTime
	p.LastError = nil
	p.Unanswered = false
	switch {
	case p.State == storage.SnapshotDeleting:
	case answer.Ready:
		p.State = storage.SnapshotReady
		p.ReadyTime = now
	default:
		p.State = storage.SnapshotPending
		p.Polls++
		p.PollTime = o.PollTime
	}
}

// Fail records that the object cannot be created, and that nothing is left of it.
func Fail(p *storage.Progress, reason string) {
	p.State = storage.SnapshotFailed
	p.Called = false
	p.Reason = reason
}

// Uncut records the failure of a call that creates. A final error proves nothing about an earlier call once
// the deletion is requested: the loop repeats the call, and decides by its error.
func Uncut(p *storage.Progress, o *storage.Outcome) {
	p.LastError = csi.CountFailure(p.LastError, o.Err)
	if !o.Final || p.State == storage.SnapshotDeleting {
		return
	}
	p.State = storage.SnapshotFailed
	p.Reason = o.Err.Message
	// A transport answers RESOURCE_EXHAUSTED to a large message, too: then the plugin has cut it. The first of
	// two calls may have had another outcome than the last.
	p.Called = o.Err.Code == structs.CSICodeExhausted || p.Unanswered
	if p.ExternalID != "" {
		p.LastError = nil // the deletion of the remains has errors of its own
	}
}

// RemainsGone records that the plugin has deleted what was left of a failed object.
func RemainsGone(p *storage.Progress) {
	p.ExternalID = ""
	p.Called = false
	p.LastError = nil
}

// Undeleted records the failure of a deletion. A ready object whose deletion the plugin rejects for good
// stays.
func Undeleted(p *storage.Progress, o *storage.Outcome) {
	p.LastError = csi.CountFailure(p.LastError, o.Err)
	if o.Final && p.ReadyTime != 0 {
		p.State = storage.SnapshotReady
	}
}

// Keep makes an object that was being deleted ready again. It reports false for one that never was ready.
func Keep(p *storage.Progress) bool {
	if p.ReadyTime == 0 {
		return false
	}
	p.State = storage.SnapshotReady
	p.LastError = nil
	p.Call = nil
	return true
}
