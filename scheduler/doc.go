// Package scheduler plans: from one consistent state and one evaluation it works out what is to be
// placed, stopped and changed, so that the job is as its specification wants it.
//
// Its laws:
//
//   - It is pure. It reads a snapshot, no clock and no network, and what it decides takes effect only
//     when the plan is applied to the log, which checks it again. Its only chance is in new ids.
//   - Planning again right after a plan was applied finds nothing to do.
//   - A node is never given more than it has; of allocations that exclude each other from a volume it
//     places one, counting those placed before that have not claimed yet and those of the same plan.
//   - To place an allocation costs the same in a fleet of any size. It goes by the volume, the plugin or the node
//     that it names, and where these leave many nodes to a sample of them, begun elsewhere by each evaluation
//     (node_iterator.go). What is counted in its metrics are the nodes that were looked at.
//   - That nothing fits is said when every node was asked. A group that cannot be placed says for each filter how
//     many nodes it refused and why, and its blocked evaluation names the keys of everything that could make room.
//     Who has waited since then asks those with more room, and a few others in turn, if it is known which these are.
//     What bars an allocation from all nodes alike, as a volume that is held, is said with 0 nodes: none was asked.
//   - An evaluation of a job per node that is about one node looks at that node and at no other.
//   - An allocation that is to be replaced by a newer version of itself keeps running while there is no
//     place for the newer one; one whose node drains, or that an operator stops, does not.
//
// Reading order: process.go (the frame), reconcile.go and pernode.go (what is wanted against what is
// there), place.go and node_iterator.go (the choice of a node), feasible.go and csi.go (the filters), rank.go (the scores).
package scheduler
