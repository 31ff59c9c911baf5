// Package cluster has the rows and requests with which the cluster itself is run: the members of Raft and of
// the gossip with its keys, the settings of autopilot and of the scheduler, namespaces and node pools, root
// keys, authorities, certificates and join tokens, and the nodes that are lost or may be: leases longer than
// usual, runs and orders of fences, claims that a lost node had, and nodes of other clusters.
//
// What jobs, volumes and nodes need for their work is in structs, with the lease that each heartbeat renews.
// How the servers use these rows is in state, server and endpoints.
package cluster
