// Package disconnect decides about the allocations of a node that has lost the servers, and about their
// replacements when the node is back. It is pure, and reads neither state nor clock. It is apart: its model
// is tested in all interleavings, and both the scheduler and its explanations ask it.
//
// An allocation takes these ways:
//
//	running, its node is down  -> lost                  without a rule, or with a proof that the node is off
//	                           -> unknown               with a rule of the block
//	unknown, its node is down  -> lost                  at the end of the time, or with a proof
//	unknown, its node is back  -> what the node reports one of it and its replacement is stopped
//
// An allocation that is unknown may run and write. It holds its claims on volumes, so a replacement gets a
// volume that has one writer only when the policy of the volume has released it.
package disconnect

import (
	"cmp"
	"time"

	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/cluster"
)

// Node is the node of an allocation.
type Node struct {
	// Lost is set when the lease of the node and its grace have ended.
	Lost bool
	// Since is the time of the loss in UnixNano.
	Since int64
	// Clock is the cluster time, nil for none: a step of it moves the end of what began at the loss.
	Clock *cluster.ClusterTime
	// Off is set when a proof of this loss says that nothing on the node runs any more.
	Off bool
}

// Alloc is an allocation that the servers want to run and that has not ended.
type Alloc struct {
	Node   Node
	Status string // of the allocation: pending, running or unknown
	// Given is set for an allocation that an operator or a drain has given up.
	Given bool
	// Covered is set when another allocation has its place in the group.
	Covered bool
}

// Action is the decision about an allocation.
type Action int

// The decisions about an allocation.
const (
	Keep    Action = iota // the servers know its state
	Lose                  // it is lost
	Await                 // it is unknown, and nothing takes its place
	Replace               // it is unknown, and another one is to take its place
	Aside                 // it is unknown, and another one has its place
)

// Decision is an action with its bound.
type Decision struct {
	Action Action
	// Until is the time in UnixNano at which the allocation is lost if its node is not back; 0 for never.
	Until int64
}

// Next decides about an allocation at a time, UnixNano. A rule of nil is the behaviour of a group without the
// block.
func Next(a Alloc, rule *structs.DisconnectStrategy, now int64) Decision {
	away := Await
	if a.Covered {
		away = Aside
	}

	switch {
	case !a.Node.Lost && a.Status != structs.AllocUnknown:
		return Decision{Action: Keep}
	case !a.Node.Lost:
		return Decision{Action: away} // its node reports it next
	case rule == nil, a.Node.Off, a.Given, a.Status == structs.AllocPending:
		return Decision{Action: Lose}
	}

	bound, bounded := boundOf(rule)
	until := clustertime.End(a.Node.Clock, a.Node.Since, bound)
	switch {
	case !bounded && replaces(rule), bounded && now >= until:
		return Decision{Action: Lose}
	case !bounded:
		return Decision{Action: away}
	case away == Await && replaces(rule) && rule.LostAfter > 0:
		away = Replace // one that stops itself is replaced after that
	}

	return Decision{Action: away, Until: until}
}

// boundOf returns the time after the loss of a node at which its allocations are lost, false if they are not.
// A node that stops its tasks by itself counts from an earlier time, the end of its lease. If nothing is to
// replace them, the node tells what became of them when it is back.
func boundOf(rule *structs.DisconnectStrategy) (bound time.Duration, bounded bool) {
	if rule.StopOnClientAfter != nil {
		return *rule.StopOnClientAfter, replaces(rule)
	}
	return rule.LostAfter, rule.LostAfter > 0
}

// LostAt returns the time at which an allocation of a group is lost whose node is down, UnixNano; 0 for no
// such time. clock is the cluster time, nil for none.
func LostAt(g *structs.TaskGroup, n *structs.Node, clock *cluster.ClusterTime) int64 {
	if g == nil || g.Disconnect == nil || n == nil {
		return 0
	}

	bound, bounded := boundOf(g.Disconnect)
	if !bounded {
		return 0
	}

	return clustertime.End(clock, SinceOf(n), bound)
}

// SinceOf returns the time of the loss of a node that is down, UnixNano.
func SinceOf(n *structs.Node) int64 { return n.StatusUpdatedAt * int64(time.Second) }

func replaces(rule *structs.DisconnectStrategy) bool {
	return rule.Replace == nil || *rule.Replace
}

// Rival is one of two live allocations with one place in a group, on nodes that are both there.
type Rival struct {
	Running bool
	Since   int64   // of the newest start of its tasks, UnixNano
	Score   float64 // of its node at its placement
}

// KeepsOriginal reports whether the original stays and its replacement stops. A replacement that does not run
// yet always stops, because the work goes on without it.
func KeepsOriginal(rule *structs.DisconnectStrategy, original, replacement Rival) bool {
	switch {
	case !replacement.Running, rule.Reconcile == structs.ReconcileKeepOriginal:
		return true
	case !original.Running, rule.Reconcile == structs.ReconcileKeepReplacement:
		return false
	case rule.Reconcile == structs.ReconcileLongestRunning:
		return cmp.Compare(original.Since, replacement.Since) <= 0
	}

	return original.Score >= replacement.Score
}
