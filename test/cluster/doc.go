// Package cluster runs servers and nodes in one process. The servers are real, with Raft, gossip and files,
// on addresses of the loopback network. The nodes are real to the servers: they register, keep a lease, pull
// allocations, claim volumes and serve calls for their plugins. They mount nothing.
//
// The package has three rules. Everything that a test starts ends with the test. Every connection between two
// members goes through a Network, which can cut it. Nodes record the use of volumes in a Storage, which fails
// the test if two nodes have a volume of one writer at the same time.
//
// The scenarios are in the tests that use the package.
package cluster
