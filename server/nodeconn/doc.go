// Package nodeconn makes the calls of servers to nodes, over the connections that nodes have opened (ADR 4).
//
// Its rules:
//
//   - It uses the newest connection of a node, which another server may have: a node works also if it does
//     not reach the leader. An unavailable call was not delivered, or the node did not begin it.
//   - The choice of a controller is a function of the rows. Calls for one object go to the same controller
//     while that one is reachable.
//   - Another controller is called only after unavailable, and not after ABORTED (TryNext): the same call is
//     not made twice at the same time.
//
// The package records nothing: the leader loops (server/control) record a call before they make it.
package nodeconn
