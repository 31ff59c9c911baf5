// Package endpoints serves the remote procedures of a server: one file per noun, and the middleware once.
//
// Its laws:
//
//   - Every request passes, in this order: measure, forward to the leader unless a stale read is allowed
//     (one hop at most), authenticate, authorize, serve. A node's identity is checked where the request is
//     served, because only there is the node's row surely known.
//   - A read that is not stale is linearizable: the leader makes sure that it still leads before it reads.
//   - A write stamps the clock of the server that proposes it; nothing here touches the store but through
//     the log.
//   - Rows are never changed: what leaves for an operator without its secrets is a copy.
//   - What a plugin has to do for a volume is recorded as an intent; the leader's loops carry it out and
//     the handler waits for the row. So neither a crash nor a new leader forgets it.
//
// What the loops do is in server/control; how entries are applied is in fsm and state.
package endpoints
