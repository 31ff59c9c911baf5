package allocrunner

import "sync"

// Phase is a point in the life of an allocation that this agent reaches once or never. Others wait for it
// with Runner.Reached.
//
// Their order is a partial one, because the hooks come up while tasks run and end:
//
//	Attached -> nearlyUp -> hooksUp -> setUpOver -> Unwound -> Ended
//	Attached -> tasksDead ----------------------->
//
// An allocation whose set-up fails, or is not wanted any more, skips nearlyUp and hooksUp. An agent that
// stops goes on to setUpOver and Ended, and skips the others. Orders are no phases, because they come at any
// time: see the contexts of Runner.
type Phase int

// The phases.
const (
	// Attached is reached once it is known which tasks of a former agent still run.
	Attached Phase = iota
	// nearlyUp is reached when the allocation's hooks are probably up soon.
	nearlyUp
	// hooksUp is reached when they are up.
	hooksUp
	// setUpOver is reached when they are up, or will not be set up any more.
	setUpOver
	// tasksDead is reached when all tasks but the poststop tasks are dead.
	tasksDead
	// Unwound is reached when every task is dead and every hook is down.
	Unwound
	// Ended is reached when Run has returned.
	Ended

	numPhases
)

// phases has the phases that an allocation has reached.
type phases [numPhases]struct {
	once    sync.Once
	reached chan struct{} // closed: the phase is reached
}

func newPhases() *phases {
	all := &phases{}
	for i := range all {
		all[i].reached = make(chan struct{})
	}
	return all
}

// reach marks a phase as reached, once.
func (all *phases) reach(p Phase) {
	all[p].once.Do(func() { close(all[p].reached) })
}

// Reached returns a channel that is closed once the allocation has reached a phase.
func (r *Runner) Reached(p Phase) <-chan struct{} { return r.phases[p].reached }

// has reports whether the allocation has reached a phase.
func (r *Runner) has(p Phase) bool { return isClosed(r.Reached(p)) }
