// Package snapshot has the rows of snapshots of volumes, and the requests about them. A row is recorded
// before the plugin is called, so no snapshot is lost with a leader or with an answer.
package snapshot
