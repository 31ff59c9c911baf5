// Package snapgroup has the rows of group snapshots, and the requests about them. A group snapshot has one
// snapshot of each of its volumes, all cut at one moment. Its row is recorded before the plugin is called, so
// none is lost with a leader or with an answer.
package snapgroup
