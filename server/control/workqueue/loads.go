package workqueue

import (
	"context"
	"sync/atomic"
	"time"

	"berth/state"
	"berth/structs"
)

// Always returns a Runner.Parallel that is the same for all groups.
func Always(n int) func(*state.ReadTx, string) int {
	return func(*state.ReadTx, string) int { return n }
}

// Load is what a group of steps has to do at one moment.
type Load struct {
	Working int // steps in work
	Waiting int // steps whose time has come and that are not in work: see Step.Counts
	// Since is when the one of them that waits longest began to wait; zero without one. It is not before the
	// runner began.
	Since time.Time
}

// Loads asks a runner for the loads of its groups. Make one with NewLoads. It is safe for concurrent use.
type Loads struct {
	asked chan chan map[string]Load
	runs  atomic.Bool // a runner is at work
}

// NewLoads returns what a Runner and its readers share. One runner at a time may have it.
func NewLoads() *Loads { return &Loads{asked: make(chan chan map[string]Load)} }

// Read returns the loads by group. A group without steps has none. It waits until ctx ends for a runner at
// work; then the error is unavailable.
func (l *Loads) Read(ctx context.Context) (map[string]Load, error) {
	answer := make(chan map[string]Load, 1)
	select {
	case l.asked <- answer:
		return <-answer, nil
	case <-ctx.Done():
		return nil, structs.Unavailablef("the loop does not run on this server: %w", ctx.Err())
	}
}

// answerTime is how long Of waits for the runner.
const answerTime = time.Second

// Of returns the load of a group. Without a runner at work it is as of a group without steps.
func (l *Loads) Of(group string) (inWork, waiting int, since time.Time) {
	if !l.runs.Load() {
		return 0, 0, time.Time{}
	}

	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	loads, _ := l.Read(ctx)
	of := loads[group]
	return of.Working, of.Waiting, of.Since
}

// setRuns records whether a runner is at work.
func (l *Loads) setRuns(runs bool) {
	if l != nil {
		l.runs.Store(runs)
	}
}

// questions is where readers ask; nil for no Loads.
func (l *Loads) questions() <-chan chan map[string]Load {
	if l == nil {
		return nil
	}
	return l.asked
}

// loads counts the entries of each group.
func (q *queue) loads() map[string]Load {
	loads := map[string]Load{}
	for _, e := range q.entries {
		l := loads[e.step.Group]
		switch {
		case e.phase == working:
			l.Working++
		case e.counts():
			l.Waiting++
			if l.Since.IsZero() || e.since.Before(l.Since) {
				l.Since = e.since
			}
		default:
			continue
		}
		loads[e.step.Group] = l
	}
	return loads
}

// counts reports whether the entry waits although its time has come.
func (e *entry) counts() bool {
	return e.phase == ready || e.phase == held || e.phase == waiting && e.step.Counts
}

// noteWait records since when the entry waits, after its phase has changed.
func (e *entry) noteWait(now time.Time) {
	switch {
	case !e.counts():
		e.since = time.Time{}
	case e.since.IsZero():
		e.since = now
	}
}
