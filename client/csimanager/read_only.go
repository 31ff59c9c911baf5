package csimanager

import "berth/structs"

// refuseReadOnly refuses a use that writes while the volume is staged on this node for other allocations and
// its file system has turned read-only under one of them: the new user would get the same file system. When
// the others have ended, the volume is unstaged, and the next user's is mounted anew.
func (w *volumeWork) refuseReadOnly(u *Use) error {
	writes := !u.ReadOnly && !u.AccessMode.ReaderOnly() && u.AttachmentMode == structs.CSIFileSystem
	if !writes || w.isPublished() {
		return nil
	}
	for _, user := range w.users {
		if !user.Writable || !w.table.ReadOnly(w.hostPath(targetPath(user.Dir, user.AllocID))) {
			continue
		}
		w.publish.TurnedReadOnly = true // the servers hear of it when this allocation gives the volume back
		if err := w.store.putPublish(w.publish); err != nil {
			return err
		}
		return structs.Errorf(structs.KindPrecondition,
			"its file system has turned read-only under %s, and it stays mounted on this node while %s uses it: "+
				"stop that too, and the volume is mounted anew", allocNames([]*publishRecord{user}), allocNames(w.users))
	}
	return nil
}
