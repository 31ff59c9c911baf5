package lifecycle

import "sync"

// Phase is a point in the life of an allocation that this agent reaches once or never. Others wait for it
// with Phases.Reached.
//
// Their order is a partial one, because the hooks come up while tasks run and end:
//
//	Attached -> NearlyUp -> HooksUp -> SetUpOver -> Unwound -> Ended
//	Attached -> TasksDead ----------------------->
//
// An allocation whose set-up fails, or is not wanted any more, skips NearlyUp and HooksUp. An agent that
// stops goes on to SetUpOver and Ended, and skips the others. Orders are no phases, because they come at any
// time: see Orders.
type Phase int

// The phases.
const (
	// Attached is reached once it is known which tasks of a former agent still run.
	Attached Phase = iota
	// NearlyUp is reached when the allocation's hooks are probably up soon.
	NearlyUp
	// HooksUp is reached when they are up.
	HooksUp
	// SetUpOver is reached when they are up, or will not be set up any more.
	SetUpOver
	// TasksDead is reached when all tasks but the poststop tasks are dead.
	TasksDead
	// Unwound is reached when every task is dead and every hook is down.
	Unwound
	// Ended is reached when Run has returned.
	Ended

	numPhases
)

// Phases has the phases that an allocation has reached.
type Phases [numPhases]struct {
	once    sync.Once
	reached chan struct{} // closed: the phase is reached
}

// NewPhases returns the phases of an allocation that has reached none.
func NewPhases() *Phases {
	all := &Phases{}
	for i := range all {
		all[i].reached = make(chan struct{})
	}
	return all
}

// Reach marks a phase as reached, once.
func (all *Phases) Reach(p Phase) {
	all[p].once.Do(func() { close(all[p].reached) })
}

// Reached returns a channel that is closed once the allocation has reached a phase.
func (all *Phases) Reached(p Phase) <-chan struct{} { return all[p].reached }

// Has reports whether the allocation has reached a phase.
func (all *Phases) Has(p Phase) bool { return isClosed(all[p].reached) }
