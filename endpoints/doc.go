// Package endpoints serves the remote procedures of a server: one file per noun, and the middleware once.
//
// Its laws:
//
//   - Every request passes, in this order: measure, forward to the leader unless a stale read is allowed
//     (one hop at most), authenticate, authorize, serve. The server that serves a request checks the
//     identity of its node, because no other server is sure to have the row of the node.
//   - A read that is not stale is linearizable: the leader makes sure that it still leads before it reads.
//     One that waits while the leadership passes to another server is answered by that server.
//   - A write has the time of the server that proposes it. A handler changes the store through the log alone.
//   - A handler never changes a row. An operator gets a copy without secrets.
//   - A call of a plugin for a volume is recorded first. The loops of the leader make it, and the handler
//     waits for the row. So neither a crash nor a new leader forgets it.
//
// Package query runs the reads and makes the lists. The loops are in server/control; fsm and state apply
// entries.
package endpoints
