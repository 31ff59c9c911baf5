// Package holds makes an allocation wait until others of its node no longer hold what the servers have given
// to it: its ports, its CPU and memory, its host volumes. Only the node knows when a stopped allocation has
// ended. Tracker knows these others. Data knows the ended allocations whose data others have still to take
// over.
package holds
