package fence

import (
	"slices"

	"berth/structs/cluster"
)

// situation is all that decides about a node that is down.
type situation struct {
	order   *cluster.FenceOrder // nil: no operator ordered a run
	runs    []*cluster.FenceRun // of the agents, in the epoch of the node, all ended, the oldest first
	devices []string            // that fence the node and cover a claim that is to be released, in order
	waited  bool                // somebody waits for a volume that a proof releases
	braked  bool                // see state.FenceBrake
	// unaccounted: the node has not reported its volumes since a restore of the state. It may have come back
	// after the snapshot, so the restored row of its loss counts for nothing.
	unaccounted bool
}

// step is the next thing to do for a node.
type step struct {
	kind    kind
	device  string // for runDevice
	attempt int    // for runDevice and noteNoDevice
}

type kind int

const (
	nothing      kind = iota
	runDevice         // run the agent of a device
	noteNoDevice      // record that no device is left to try
)

// next returns the next step for a node, at a time in UnixNano.
func next(s situation, now int64) step {
	if s.order == nil && (!s.waited || s.braked || s.unaccounted) {
		return step{}
	}

	attempt, due := s.attempt()
	// The clock of the leader that set a time further ahead than the longest pause was wrong.
	if now < due && due-now <= int64(retry.Max) {
		return step{}
	}

	left := s.untried(attempt)
	if len(left) == 0 {
		return step{kind: noteNoDevice, attempt: attempt}
	}

	return step{kind: runDevice, device: left[0], attempt: attempt}
}

// attempt returns the number of the present or next attempt, and the time from which on it may go on. An
// order begins a new attempt at once.
func (s situation) attempt() (number int, due int64) {
	if len(s.runs) == 0 {
		return 1, 0
	}

	last := s.runs[len(s.runs)-1]
	switch {
	case s.order != nil && last.Number <= s.order.After:
		return last.Attempt + 1, 0
	case last.NextTry == 0:
		return last.Attempt, 0
	case s.order != nil:
		return last.Attempt + 1, 0
	}

	return last.Attempt + 1, last.NextTry
}

// untried returns the devices that an attempt has not tried. A device whose run a leader left is tried again.
func (s situation) untried(attempt int) []string {
	return slices.DeleteFunc(slices.Clone(s.devices), func(device string) bool {
		return slices.ContainsFunc(s.runs, func(r *cluster.FenceRun) bool {
			return r.Attempt == attempt && r.Device == device && r.Cause != cluster.FenceCauseLeader
		})
	})
}
