// Package capacity computes what allocations use of one node, and what is free: CPU, memory and disk, ports,
// and devices. The scheduler places by it, the log accepts plans by it, and a node waits by it.
//
// It chooses no node, port or device. Nothing of it goes over a wire.
package capacity
