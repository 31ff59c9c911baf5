// Package query runs the reads of the procedures: queries that block until their answer changes.
//
// Its laws:
//
//   - A query sees one snapshot of the state. It may run several times; each time it reads a newer one.
//   - A blocking query ends with its caller, after its MaxWait, and, unless a stale answer will do, when this
//     server loses its leadership.
//   - A digest cache may forget. A query is then answered too early, never too late.
//
// The package knows no noun and no row: it gets a function that reads.
package query
