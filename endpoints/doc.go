// Package endpoints serves the remote procedures of a server: one list of them, and one middleware. The
// procedures of nodes, jobs and storage are in node, job and csi, which do not use each other. Package core
// has what they share. Those of the cluster are here: servers, namespaces, search.
//
// Its rules:
//
//   - Every request passes these steps in this order: measure, forward to the leader unless a stale read is
//     allowed (at most one hop), authenticate, authorize, serve. The server that serves a request checks the
//     identity of its node, because no other server is sure to have the row of the node.
//   - A read that is not stale is linearizable: the leader makes sure that it still leads before it reads. If
//     the leadership passes to another server during a blocking query, that server answers it.
//   - A write has the time of the server that proposes it. A handler changes the store only through the log.
//   - A handler never changes a row. An operator gets a copy without secrets.
//   - A call of a plugin for a volume is recorded first. The leader loops make it, and the handler waits for
//     the row. So the call survives a crash and a new leader.
//
// Package query runs the reads and makes the lists. The loops are in server/control. fsm and state apply
// entries.
package endpoints
