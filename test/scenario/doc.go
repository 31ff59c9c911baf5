// Package scenario tells stories of clusters in which things go wrong, and holds the servers to how they
// have to end: no volume of one writer is ever mounted twice, no claim is released that may still write, and
// a person who asks is told who is in the way and what would help.
//
// Servers are real, nodes are those of test/cluster; real mounts are left to test/e2e.
package scenario
