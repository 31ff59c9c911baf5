// Package scheduler computes plans: from one consistent state and one evaluation, the allocations to place,
// stop and update so that the job matches its specification.
//
// Its rules:
//
//   - It is pure. It reads a snapshot, no clock and no network. Its decisions take effect only when the log
//     applies the plan, which checks it again. Only new IDs are random.
//   - A second plan right after a plan was applied is empty.
//   - A node never gets more than it has. Of allocations that exclude each other from a volume it places one.
//     It counts placed allocations that have not claimed yet, also of the same plan.
//   - The cost of a placement does not depend on the size of the fleet. The candidates come from the volume,
//     the plugin or the node that the allocation names. If these are many nodes, it reads a sample, which
//     begins at another node for each evaluation (node_iterator.go). The metrics count the nodes that it
//     read.
//   - It reports that nothing fits only after it has tried every node. A group without a place counts the
//     rejecting nodes by filter and reason. Its blocked evaluation names the unblock keys of everything that
//     could free capacity. An unblocked evaluation tries the nodes with freed capacity, and a few others in
//     turn, if these nodes are known. A reason that blocks an allocation on all nodes alike, for example a
//     held volume, has a count of 0 nodes: it tried none.
//   - An evaluation of a per-node job for one node reads only that node.
//   - An allocation that a newer version of itself replaces keeps running until there is a place for the
//     newer one. One that a drain moves, or that an operator stops, does not.
//
// Three types share the work. The outlook is the state as it will be with the plan so far, the placer finds
// nodes, the planner decides. Each uses the one before it; deployer is the planner of a deployment.
//
// Reading order: process.go (the frame), reconcile.go and pernode.go (the job against its allocations),
// place.go and node_iterator.go (the choice of a node), feasible.go and csi.go (the filters), rank.go (the
// scores). Package match compiles constraints, rejects counts rejections, change compares versions of a job.
package scheduler
