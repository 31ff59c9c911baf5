// Package admin has the rows and requests with which the cluster itself is run: the members of Raft and of
// the gossip, the settings of autopilot and of the scheduler, namespaces and node pools, root keys,
// authorities, certificates and join tokens.
//
// What jobs, volumes and nodes need for their work is in structs. How the servers use these rows is in state,
// server and endpoints.
package admin
