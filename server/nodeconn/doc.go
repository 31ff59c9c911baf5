// Package nodeconn makes the calls of servers to nodes, over the connections that nodes have opened (ADR 4).
//
// Its rules:
//
//   - Of one node the newest connection is used. An unavailable call was not delivered, or the node did not
//     begin it.
//   - The choice of a controller is a function of the rows. Calls about one thing go to the same controller
//     while that one can be asked.
//   - Another controller is asked only after unavailable: the same call is not made twice at the same time.
//
// The package records nothing: the leader's loops (server/control) record a call before they make it.
package nodeconn
