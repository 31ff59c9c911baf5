package control

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

// runner does what rows ask for. It is driven by keys: it looks once at all rows, when it begins, and from then
// on at those that have changed, those whose step has ended, and those whose turn it is. Nothing that it does
// costs more because more is waiting. It holds no truth: only which keys ask for something, when, and what failed.
type runner[K runKey] struct {
	name     string
	logger   hclog.Logger
	store    *state.Store
	now      func() time.Time
	retry    backoff.Backoff
	parallel int // steps in work per group
	most     int // changes that are kept until they are looked at; 0: keptChanges

	topics []state.Topic // the tables that read, keys and signals look at
	// all yields the keys of all rows that may ask for something, in order of preference.
	all func(tx *state.ReadTx) iter.Seq[K]
	// read says what the rows of a key ask for. It is where everything is decided.
	read func(tx *state.ReadTx, key K) step
	// keys yields the keys whose rows a change concerns.
	keys func(tx *state.ReadTx, c state.Change) iter.Seq[K]
	// signals names what a change may let go on; it is asked while anything waits for a signal.
	signals func(tx *state.ReadTx, c state.Change) []string
}

type runKey interface {
	comparable
	fmt.Stringer
}

// keptChanges is how many changes of rows a loop lets come together while it looks at others: beyond that it looks
// at everything.
const keptChanges = 1 << 16

// step is what the rows of a key ask for. The zero value is nothing.
type step struct {
	op      string    // what is done; when that is another, what failed is forgotten
	version uint64    // of the rows it was decided from
	group   string    // of the steps of one group a bounded number is in work
	serial  string    // of the steps with one serial at most one is in work; "" holds up nobody
	rank    int       // of the steps with one serial that could be taken, those with the lowest go first
	failed  bool      // comes after those of its group that have not
	due     time.Time // not before
	awaits  []string  // signals, of which one has to be given before its rows are worth another look
	act     func(context.Context) error
}

func (s step) rankedBefore(o step) bool {
	if s.failed != o.failed {
		return o.failed
	}
	return s.rank < o.rank
}

// sameTurn reports whether a step may keep the place of another in the queue.
func (s step) sameTurn(o step) bool {
	return s.group == o.group && s.serial == o.serial && s.rank == o.rank && s.failed == o.failed
}

// ended is a step that was taken.
type ended[K runKey] struct {
	key  K
	step step
	err  error
}

// running is a runner at work.
type running[K runKey] struct {
	runner[K]
	*queue[K]
	feed    *state.Subscription
	workers sync.WaitGroup
	results chan ended[K]
	timer   *time.Timer
}

// run works until ctx ends.
func (r runner[K]) run(ctx context.Context) {
	now := &running[K]{runner: r, queue: newQueue[K](r.retry), results: make(chan ended[K]), timer: time.NewTimer(0)}
	defer now.workers.Wait()
	defer now.timer.Stop()
	now.feed = r.store.Subscribe(cmp.Or(r.most, keptChanges), r.topics...) // before the first look
	defer now.feed.Close()
	now.lookAtAll(r.store.Read())
	for ctx.Err() == nil {
		now.ripen(r.now())
		now.fill(ctx) // may find that what was due is due later now
		metrics.SetGaugeWithLabels([]string{"control", "waiting"}, float32(len(now.entries)-now.working), []metrics.Label{{Name: "loop", Value: r.name}})
		now.wait(ctx, now.nextDue())
	}
}

// lookAtAll looks at all keys there are, and at those it knows once more.
func (r *running[K]) lookAtAll(tx *state.ReadTx) {
	now, known := r.now(), slices.Collect(maps.Keys(r.entries))
	for key := range r.all(tx) {
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
		r.put(key, r.read(tx, key), now)
	}
}

// fill begins what can be begun in groups in which something may have become possible. Each is decided on the
// newest rows.
func (r *running[K]) fill(ctx context.Context) {
	if len(r.hungry) == 0 {
		return
	}
	tx, now := r.store.Read(), r.now()
	for len(r.hungry) > 0 {
		last := len(r.hungry) - 1
		g := r.hungry[last]
		r.hungry, g.hungry = r.hungry[:last], false
		for g.working < r.parallel {
			e := g.first()
			if e == nil {
				break
			}
			s := r.read(tx, e.key)
			r.put(e.key, s, now)
			if e.place == ready && g.first() == e {
				r.start(ctx, e, s)
			}
		}
	}
}

func (r *running[K]) start(ctx context.Context, e *entry[K], s step) {
	r.begin(e)
	key := e.key
	r.workers.Go(func() {
		select {
		case r.results <- ended[K]{key, s, s.act(ctx)}:
		case <-ctx.Done():
		}
	})
}

// wait returns when something has ended, changed or come due, and been looked at.
func (r *running[K]) wait(ctx context.Context, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		r.timer.Reset(max(0, next.Sub(r.now())))
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
	tx, now := r.store.Read(), r.now()
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
		for key := range r.keys(tx, c) {
			r.look(tx, key, now)
		}
		if len(r.parked) == 0 || r.signals == nil {
			continue
		}
		for _, signal := range r.signals(tx, c) {
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
		r.logger.Warn("a step failed and is tried again", "loop", r.name, "step", e.step.op+" "+e.key.String(), "error", e.err)
	}
	r.end(r.entries[e.key], attempt{op: e.step.op, version: e.step.version, failures: 1, err: e.err, at: now})
}
