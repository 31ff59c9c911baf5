// Package place finds the nodes of the allocations that a plan places, and adds them to the plan.
//
// A Placer takes a list of placements. For each it tries a sample of the nodes that may be feasible
// (node_iterator.go, candidates.go), and ranks the feasible ones (rank.go). An update that finds no node may
// stop other predecessors of the same update first (stop_first.go), and an allocation may displace less
// important ones (preempt.go, victims.go). A Group keeps the candidates of a group, and the placements that
// found none.
//
// It leaves the views and the plan changed by what it placed and stopped, and by nothing of a trial: each
// trial takes back its stops.
//
// The kind of a placement tells what it replaces. reschedule.go tells when an ended allocation is replaced.
// How many updates a group may do is the matter of its pace, which the caller sets.
package place
