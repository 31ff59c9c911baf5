// Package lifecycle changes the rows of CSI: it registers, creates, expands and deletes volumes, queues and
// grants claims, attaches and detaches volumes, and follows the reports on plugins. Its exported commands
// are applied by the entries of the log.
//
// It ends no allocation and changes no node: package state calls it when an allocation ends or a node
// reports, and has the commands that do both (state.VolumeUnpublish, state.VolumeForce). The package calls
// no plugin: a loop of the leader does, and proposes the outcome.
package lifecycle
