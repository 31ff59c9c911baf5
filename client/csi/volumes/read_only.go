package volumes

import (
	"slices"

	"berth/structs"
)

// rejectReadOnly rejects a use that writes while the volume is staged on this node for other allocations and
// its file system has turned read-only: the new user would get the same file system. When the others have
// ended, the volume is unstaged, and the next user's file system is mounted again.
func (w *volumeWork) rejectReadOnly(u *Use) error {
	writes := !u.ReadOnly && !u.AccessMode.ReaderOnly() &&
		u.AttachmentMode == structs.CSIFileSystem
	if !writes || w.isPublished() || !w.sharesReadOnly() {
		return nil
	}

	w.publish.TurnedReadOnly = true // the servers learn of it when this allocation releases the volume
	w.writeLater(publishChange(w.publish))
	return structs.Preconditionf(
		"its file system has turned read-only, and it stays mounted on this node while %s uses it: "+
			"stop that too, and the volume is mounted again", allocNames(w.users))
}

// sharesReadOnly reports whether the volume has other users on this node and its file system could be written
// when it was staged, or published for one of them, and cannot be written now.
func (w *volumeWork) sharesReadOnly() bool {
	s := w.stage
	if len(w.users) > 0 && s != nil && s.Writable &&
		w.table.ReadOnly(w.hostPath(s.path())) {
		return true
	}
	return slices.ContainsFunc(w.users, func(p *publishRecord) bool {
		return p.Writable && w.table.ReadOnly(w.hostPath(p.target()))
	})
}
