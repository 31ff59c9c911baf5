// Package nodeloss has the rows and requests on nodes that are lost or may be: leases longer than usual, runs
// and orders of fences, claims that a lost node had, and nodes of other clusters.
//
// The lease that each heartbeat renews is in structs. Package server/control decides that a node is lost.
package nodeloss
