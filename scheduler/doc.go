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
//     begins at another node for each evaluation (place/node_iterator.go). The metrics count the nodes read.
//   - It reports that nothing fits only after it has tried every node. A group without a place counts the
//     rejecting nodes by filter and reason. Its blocked evaluation names the unblock keys of everything that
//     could free capacity. An unblocked evaluation tries the nodes with freed capacity, and a few others in
//     turn, if these nodes are known. A reason that blocks an allocation on all nodes alike, for example a
//     held volume, has a count of 0 nodes: it tried none.
//   - An evaluation of a per-node job for one node reads only that node.
//   - An allocation that a newer version of itself replaces keeps running until there is a place for the
//     newer one. One that a drain moves, or that an operator stops, does not.
//
// The planner decides: it compares the job with its allocations, and lists the placements. Package place
// finds their nodes, package feasible has the filters and the state as it will be with the plan so far,
// package rollout the pace of updates. Each decides less than the one before it, and none calls back.
//
// Reading order: process.go (the frame), reconcile.go and pernode.go (the job against its allocations),
// deployment.go and batches.go (updates), conclusion.go (the evaluation, and those that follow). Package
// match compiles constraints, and rejects counts rejections.
// run_spec.go compares versions of a job, and place/reschedule.go has the policy of allocations that end.
package scheduler
