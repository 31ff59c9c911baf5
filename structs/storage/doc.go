// Package storage has the rows and requests of storage that no type of structs refers to: classes of volumes,
// snapshots with their groups and schedules, dynamic host volumes and the claims on them, the settings of CSI
// plugins, differences between rows and the storage, and the use and the health of volumes. The rows of
// volumes, claims and attachments are in structs.
//
// It has also the rules that follow from these rows alone: when a volume grows, when it is deleted, which
// parameters its plugin has still to apply, and which volumes a job asks for. Rules for the values that users
// write are in validate.
//
// The row of a snapshot, of a group and of a volume is recorded before the plugin is called, so nothing that
// a plugin makes is lost with a leader or with an answer.
package storage
