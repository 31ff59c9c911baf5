package workqueue

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/internal/backoff"
	"berth/state"
)

// Runner takes the steps that rows need. Its fields are set before Run.
type Runner struct {
	Name   string // of the loop, in logs and metrics
	Logger hclog.Logger
	Store  *state.Store
	Retry  backoff.Backoff // of a step that failed or changed nothing
	// Parallel returns the most steps of a group that are in work at once. It is called when one may begin.
	Parallel func(tx *state.ReadTx, group string) int
	// MaxChanges is the number of changed rows that are kept while the runner is busy. Beyond that it reads
	// all keys. 0 means KeptChanges.
	MaxChanges int

	Topics []state.Topic // the tables that Read, Keys and Signals read
	// All yields the keys of all rows that may need a step, in order of preference.
	All func(tx *state.ReadTx) iter.Seq[Key]
	// Read returns the step that the rows of a key need.
	Read func(tx *state.ReadTx, key Key) Step
	// Keys yields the keys whose rows a change concerns.
	Keys func(tx *state.ReadTx, c state.Change) iter.Seq[Key]
	// Signals returns the signals that a change gives. It is called while a step awaits one. It may be nil.
	Signals func(tx *state.ReadTx, c state.Change) []string
	// Bounds returns the group whose Parallel a change may raise, "" for none. It may be nil.
	Bounds func(c state.Change) (group string)
	Loads  *Loads // answers with the loads of the groups; nil: nobody asks
}

// Key names the row of a step, as a change of the row does.
type Key = state.Change

func keyText(k Key) string {
	return strings.TrimRight(strings.Join(k.Key[:], "/"), "/")
}

// KeptChanges is the default of Runner.MaxChanges.
const KeptChanges = 1 << 16

// Step is an operation that the rows of a key need. The zero value is nothing.
type Step struct {
	Op      string    // the operation; a change of it resets the failures
	Version uint64    // of the rows
	Group   string    // of one group, at most Runner.Parallel steps are in work at once
	Serial  string    // of one serial of a group, one step is in work at once; "": the step has one by itself
	Others  []string  // further serials of the group that have no step in work meanwhile
	Long    bool      // such steps have at most half of the places of a group, and one at least
	Rank    int       // of one serial, the step with the lowest rank is first
	Failed  bool      // it comes after the steps of its group that have not failed
	Due     time.Time // it is not taken earlier
	Awaits  []string  // signals; the step is read again after one of them, and not taken before
	Counts  bool      // a step that awaits signals counts as waiting in Load; others do without this
	Act     func(context.Context) error
}

// ended is a step that was taken.
type ended struct {
	*entry
	err error
}

// running is a runner at work. It belongs to the goroutine of Run.
type running struct {
	Runner
	*queue
	feed    *state.Subscription
	workers sync.WaitGroup
	results chan ended
}

// Run works until ctx ends. It returns when all steps in work have ended.
func (r Runner) Run(ctx context.Context) {
	now := &running{
		Runner:  r,
		queue:   newQueue(r.Retry),
		results: make(chan ended),
	}
	defer now.workers.Wait()
	r.Loads.setRuns(true)
	defer r.Loads.setRuns(false)

	most := cmp.Or(r.MaxChanges, KeptChanges)
	now.feed = r.Store.Subscribe(most, r.Topics...) // before the first read
	defer now.feed.Close()
	now.readAll(r.Store.Read())
	labels := []metrics.Label{{
		Name:  "loop",
		Value: r.Name,
	}}
	for ctx.Err() == nil {
		now.promoteDue(time.Now())
		now.startSteps(ctx) // before nextDue: it reads steps, which may be due later now
		idle := len(now.entries) - now.working
		metrics.SetGaugeWithLabels([]string{"control", "waiting"}, float32(idle), labels)
		now.awaitEvent(ctx, now.nextDue())
	}
}

// readAll reads all keys, and again those in the queue.
func (r *running) readAll(tx *state.ReadTx) {
	// Those in the queue are read, too: All may no longer yield a key whose step is done.
	known := slices.Collect(maps.Keys(r.entries))
	for key := range r.All(tx) {
		if r.entries[key] == nil {
			r.readKey(tx, key)
		}
	}
	for _, key := range known {
		r.readKey(tx, key)
	}
}

// readKey decides on a key again. A step in work is left alone: its end reads the key.
func (r *running) readKey(tx *state.ReadTx, key Key) {
	e := r.entries[key]
	if e == nil || e.phase != working {
		r.update(key, r.Read(tx, key), time.Now())
	}
}

// startSteps begins the steps that can begin, each as it is read on the newest rows.
func (r *running) startSteps(ctx context.Context) {
	if len(r.runnable) == 0 {
		return
	}

	tx := r.Store.Read()
	for len(r.runnable) > 0 {
		last := len(r.runnable) - 1
		g := r.runnable[last]
		r.runnable = r.runnable[:last]
		g.listed = false
		most := r.Parallel(tx, g.name)
		for g.working < most {
			e := r.firstFree(g, most)
			if e == nil {
				break
			}

			s := r.Read(tx, e.key)
			r.update(e.key, s, time.Now())

			// The newest rows may need another step, later or none. The loop then looks at the next entry.
			if e.phase == ready && r.firstFree(g, most) == e {
				r.startStep(ctx, e, s)
			}
		}
	}
}

// startStep runs a step in a goroutine, which ends with the step. Run waits for it.
func (r *running) startStep(ctx context.Context, e *entry, s Step) {
	r.beginStep(e)
	r.workers.Go(func() {
		err := s.Act(ctx)
		select {
		// After the end of Run nobody reads results.
		case r.results <- ended{e, err}:
		case <-ctx.Done():
		}
	})
}

// awaitEvent returns when a step has ended, rows have changed or a step comes due, and reads the keys
// concerned.
func (r *running) awaitEvent(ctx context.Context, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		due = time.After(time.Until(next))
	}

	select {
	case e := <-r.results:
		r.recordEnd(ctx, e)
		r.readChanges()
		r.readKey(r.Store.Read(), e.key)
	case <-r.feed.Ready():
		r.readChanges()
	case answer := <-r.Loads.questions():
		answer <- r.loads()
	case <-due:
	case <-ctx.Done():
	}
}

// recordEnd records the end of a step.
func (r *running) recordEnd(ctx context.Context, e ended) {
	if e.err != nil && ctx.Err() == nil {
		r.Logger.Warn("step failed, retrying",
			"loop", r.Name,
			"step", e.step.Op+" "+keyText(e.key),
			"error", e.err)
	}
	r.endStep(e.entry, e.err, time.Now())
}

// readChanges reads the keys that changes concern, and the keys that await a signal of the changes.
func (r *running) readChanges() {
	changed, everything := r.feed.TakeChanges()
	tx := r.Store.Read() // not older than the changes
	if everything {
		r.readAll(tx)
		for _, g := range r.groups { // a bound may be among the changes
			r.releaseLong(g)
			r.markRunnable(g)
		}
		return
	}

	signals := map[string]bool{}
	for _, c := range changed {
		for key := range r.Keys(tx, c) {
			r.readKey(tx, key)
		}

		r.followBound(c)
		if len(r.waiting) == 0 || r.Signals == nil {
			continue
		}

		for _, signal := range r.Signals(tx, c) {
			signals[signal] = true
		}
	}

	for signal := range signals {
		for _, e := range r.awaiting(signal) {
			r.readKey(tx, e.key)
		}
	}
}

// followBound lets steps begin in a group whose bound a change has raised.
func (r *running) followBound(c state.Change) {
	if r.Bounds == nil {
		return
	}
	g := r.groups[r.Bounds(c)]
	if g != nil {
		r.releaseLong(g)
		r.markRunnable(g)
	}
}
