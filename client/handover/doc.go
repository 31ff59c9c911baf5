// Package handover makes an allocation wait until others no longer have what the servers have given to it:
// its ports, its CPU and memory, its host volumes, and all that the allocations have which it replaces or
// displaces (Predecessors). Only a node knows when a stopped allocation has ended. Tracker knows the others
// of this node. Data knows the ended allocations whose data others have still to take over.
package handover
