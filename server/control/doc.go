// Package control holds the loops that run on the leader alone: what the log cannot do by itself because it
// takes time, a call to a node, or a decision.
//
// Its laws:
//
//   - A loop holds no truth. What is to be done follows from the rows; a new leader's loops find it there
//     and do it again with the same arguments.
//   - A loop that works off rows is driven by the keys of those that have changed: a step costs the same
//     however much waits, and what cannot go on is not looked at before something changes that lets it.
//   - Deciding is a pure function of rows (next...); acting is done by the loop, and what came of it is
//     proposed to the log, failures with their number too.
//   - A volume has at most one controller call in flight (CSI spec, "Concurrency"), a plugin a bounded
//     number, and a failure delays nothing but itself.
//   - Nothing is released for a node that is down: nobody can say that it does not write.
//   - A loop ends with its context, and waits for what it started.
//
// Calls to nodes go through server/nodeconn. Requests are left to endpoints, which this package does not
// import, and the effect of an entry on the rows to state.
package control
