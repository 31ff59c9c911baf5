// Package fsm connects Raft's log to the state. It has the one list of commands, encodes and applies log
// entries, and writes and restores snapshots.
//
// Its rules:
//
//   - The ID of a command never changes, because every version must read an old log and an old snapshot
//     alike. The golden file in testdata has the IDs and names.
//   - Apply is deterministic. A value that depends on a clock, on chance or on the memory of one server is
//     decided before the proposal and is a field of the payload.
//   - The error of a state function is the result of the command and returns to the proposer. An entry that
//     this version cannot decode stops the server. The server would otherwise diverge from the others.
//
// The package proposes through an interface that the server implements. It knows nothing else of Raft.
package fsm
