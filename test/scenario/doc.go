// Package scenario tests clusters with faults, and how the servers have to resolve them: no volume of one
// writer is ever mounted twice, no claim is released whose allocation may still write, and the status names
// the holder and the remedy.
//
// The servers are real, the nodes are those of test/cluster. test/e2e has real mounts.
package scenario
