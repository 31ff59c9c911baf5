package workqueue

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/internal/backoff"
	"berth/state"
)

// Runner does what rows ask for. It is driven by keys: it looks once at all rows, when it begins, and from then
// on at those that have changed, those whose step has ended, and those whose turn it is. Nothing that it does
// costs more because more is waiting. It holds no truth: only which keys ask for something, when, and what failed.
type Runner[K Key] struct {
	Name       string
	Logger     hclog.Logger
	Store      *state.Store
	Now        func() time.Time
	Retry      backoff.Backoff
	Parallel   int // steps in work per group
	MaxChanges int // changes that are kept until they are looked at; 0: KeptChanges

	Topics []state.Topic // the tables that Read, Keys and Signals look at
	// All yields the keys of all rows that may ask for something, in order of preference.
	All func(tx *state.ReadTx) iter.Seq[K]
	// Read says what the rows of a key ask for. It is where everything is decided.
	Read func(tx *state.ReadTx, key K) Step
	// Keys yields the keys whose rows a change concerns.
	Keys func(tx *state.ReadTx, c state.Change) iter.Seq[K]
	// Signals names what a change may let go on; it is asked while anything waits for a signal.
	Signals func(tx *state.ReadTx, c state.Change) []string
}

// Key names a row.
type Key interface {
	comparable
	fmt.Stringer
}

// KeptChanges is how many changes of rows a loop lets come together while it looks at others: beyond that it looks
// at everything.
const KeptChanges = 1 << 16

// Step is what the rows of a key ask for. The zero value is nothing.
type Step struct {
	Op      string    // what is done; when that is another, what failed is forgotten
	Version uint64    // of the rows it was decided from
	Group   string    // of the steps of one group a bounded number is in work
	Serial  string    // of the steps with one serial at most one is in work; "" holds up nobody
	Rank    int       // of the steps with one serial that could be taken, those with the lowest go first
	Failed  bool      // comes after those of its group that have not
	Due     time.Time // not before
	Awaits  []string  // signals, of which one has to be given before its rows are worth another look
	Act     func(context.Context) error
}

func (s Step) rankedBefore(o Step) bool {
	if s.Failed != o.Failed {
		return o.Failed
	}
	return s.Rank < o.Rank
}

// sameTurn reports whether a step may keep the place of another in the queue.
func (s Step) sameTurn(o Step) bool {
	return s.Group == o.Group && s.Serial == o.Serial && s.Rank == o.Rank && s.Failed == o.Failed
}

// ended is a step that was taken.
type ended[K Key] struct {
	key  K
	step Step
	err  error
}

// running is a runner at work.
type running[K Key] struct {
	Runner[K]
	*queue[K]
	feed    *state.Subscription
	workers sync.WaitGroup
	results chan ended[K]
	timer   *time.Timer
}

// Run works until ctx ends.
func (r Runner[K]) Run(ctx context.Context) {
	now := &running[K]{Runner: r, queue: newQueue[K](r.Retry), results: make(chan ended[K]), timer: time.NewTimer(0)}
	defer now.workers.Wait()
	defer now.timer.Stop()
	now.feed = r.Store.Subscribe(cmp.Or(r.MaxChanges, KeptChanges), r.Topics...) // before the first look
	defer now.feed.Close()
	now.lookAtAll(r.Store.Read())
	for ctx.Err() == nil {
		now.ripen(r.Now())
		now.fill(ctx) // may find that what was due is due later now
		metrics.SetGaugeWithLabels([]string{"control", "waiting"}, float32(len(now.entries)-now.working), []metrics.Label{{Name: "loop", Value: r.Name}})
		now.wait(ctx, now.nextDue())
	}
}

// lookAtAll looks at all keys there are, and at those it knows once more.
func (r *running[K]) lookAtAll(tx *state.ReadTx) {
	now, known := r.Now(), slices.Collect(maps.Keys(r.entries))
	for key := range r.All(tx) {
		if r.entries[key] == nil {
			r.look(tx, key, now)
		}
	}
	for _, key := range known {
		r.look(tx, key, now)
	}
}

func (r *running[K]) look(tx *state.ReadTx, key K, now time.Time) {
	if e := r.entries[key]; e == nil || e.place != working {
		r.put(key, r.Read(tx, key), now)
	}
}

// fill begins what can be begun in groups in which something may have become possible. Each is decided on the
// newest rows.
func (r *running[K]) fill(ctx context.Context) {
	if len(r.hungry) == 0 {
		return
	}
	tx, now := r.Store.Read(), r.Now()
	for len(r.hungry) > 0 {
		last := len(r.hungry) - 1
		g := r.hungry[last]
		r.hungry, g.hungry = r.hungry[:last], false
		for g.working < r.Parallel {
			e := g.first()
			if e == nil {
				break
			}
			s := r.Read(tx, e.key)
			r.put(e.key, s, now)
			if e.place == ready && g.first() == e {
				r.start(ctx, e, s)
			}
		}
	}
}

func (r *running[K]) start(ctx context.Context, e *entry[K], s Step) {
	r.begin(e)
	key := e.key
	r.workers.Go(func() {
		select {
		case r.results <- ended[K]{key, s, s.Act(ctx)}:
		case <-ctx.Done():
		}
	})
}

// wait returns when something has ended, changed or come due, and been looked at.
func (r *running[K]) wait(ctx context.Context, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		r.timer.Reset(max(0, next.Sub(r.Now())))
		due = r.timer.C
	}
	var first []ended[K]
	select {
	case e := <-r.results:
		first = append(first, e)
	case <-r.feed.Ready():
	case <-due:
	case <-ctx.Done():
		return
	}
	r.catchUp(ctx, r.drain(first))
}

// drain adds what else has ended.
func (r *running[K]) drain(all []ended[K]) []ended[K] {
	for {
		select {
		case e := <-r.results:
			all = append(all, e)
		default:
			return all
		}
	}
}

// catchUp looks at what has changed and at what has ended, in a snapshot that knows of all that.
func (r *running[K]) catchUp(ctx context.Context, all []ended[K]) {
	changed, everything := r.feed.TakeChanges()
	tx, now := r.Store.Read(), r.Now()
	for _, e := range all {
		r.settle(ctx, e, now)
	}
	if everything {
		r.lookAtAll(tx)
		return
	}
	for _, e := range all {
		r.look(tx, e.key, now)
	}
	signals := map[string]bool{}
	for _, c := range changed {
		for key := range r.Keys(tx, c) {
			r.look(tx, key, now)
		}
		if len(r.parked) == 0 || r.Signals == nil {
			continue
		}
		for _, signal := range r.Signals(tx, c) {
			signals[signal] = true
		}
	}
	for signal := range signals {
		for _, e := range r.awaiting(signal) {
			r.look(tx, e.key, now)
		}
	}
}

func (r *running[K]) settle(ctx context.Context, e ended[K], now time.Time) {
	if e.err != nil && ctx.Err() == nil {
		r.Logger.Warn("a step failed and is tried again", "loop", r.Name, "step", e.step.Op+" "+e.key.String(), "error", e.err)
	}
	r.end(r.entries[e.key], attempt{op: e.step.Op, version: e.step.Version, failures: 1, err: e.err, at: now})
}
