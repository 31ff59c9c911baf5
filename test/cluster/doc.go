// Package cluster runs servers and nodes in one process: real servers with Raft, gossip and files, on
// addresses of the loopback network, and nodes that are real to the servers - they register, keep a lease,
// pull allocations, claim volumes and serve their plugins' calls - but mount nothing.
//
// Its laws: whatever a test starts ends with the test; every connection between two of them goes through a
// Network that can cut it; what nodes do to volumes they do to a Storage, which fails the test when two
// nodes have a volume of one writer at once.
//
// What a scenario is about is left to the tests that use it.
package cluster
