package structs

import "time"

// The rules by which one of two allocations stays when a node is back and its own was replaced meanwhile.
const (
	ReconcileKeepOriginal    = "keep_original"
	ReconcileKeepReplacement = "keep_replacement"
	ReconcileBestScore       = "best_score"
	ReconcileLongestRunning  = "longest_running"
)

// DisconnectStrategy says what happens to the allocations of a group when their node has no contact to the
// servers. The zero value is the behaviour of a group without the block.
type DisconnectStrategy struct {
	// LostAfter is the time for which an allocation of a node that is down is unknown, before it is lost. 0:
	// it is lost when its node is down.
	LostAfter time.Duration `json:",omitempty" codec:",omitempty"`
	// StopOnClientAfter is the time after the end of the node's lease at which the node itself stops the
	// tasks; nil: they run on.
	StopOnClientAfter *time.Duration `json:",omitempty" codec:",omitempty"`
	// Replace says whether an allocation that is unknown is replaced on another node; nil: it is. One that is
	// not, and has no other bound, stays unknown until its node is back.
	Replace *bool `json:",omitempty" codec:",omitempty"`
	// Reconcile is one of the Reconcile rules; "" for ReconcileBestScore.
	Reconcile string `json:",omitempty" codec:",omitempty"`
}
