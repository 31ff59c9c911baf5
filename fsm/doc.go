// Package fsm joins Raft's log to the state: the one list of commands, how a log entry is written and
// applied, snapshot and restore.
//
// Its laws:
//
//   - A command's id is for ever: an old log and an old snapshot must read the same in every version. The
//     golden file in testdata holds ids and names.
//   - Applying is deterministic. Whatever depends on a clock, on chance or on one server's memory is decided
//     before the entry is proposed and travels in it.
//   - The error of a state function is the command's answer and goes to who proposed it. An entry that this
//     version cannot read is not: going on would make this server differ from the others, so it stops.
//
// It proposes through an interface that the server fulfils, and knows nothing else of Raft's working.
package fsm
