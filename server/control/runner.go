package control

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/state"
)

// item is one step that a loop could take now.
type item struct {
	key     string    // names the step: it is not begun twice at once, and its failures are counted
	version uint64    // of the rows it was decided from
	serial  string    // of the items with one serial at most one is in work
	group   string    // of the items of one group a bounded number is in work
	due     time.Time // not before
	act     func(context.Context) error
}

// runner does what a list of items says. The list is made anew whenever what it was made from has changed,
// an item has ended, or one has come due; so nothing is remembered but what is in work and what failed.
type runner struct {
	name     string
	logger   hclog.Logger
	store    *state.Store
	now      func() time.Time
	retry    Backoff
	parallel int // items in work per group

	// snapshot takes what items is made from: Store.Watching for few rows, Store.Read for whole tables.
	snapshot func() *state.Read
	items    func(tx *state.Read) []item // in order of preference
	every    time.Duration               // make the list at least so often; 0: only when something happens
	gap      time.Duration               // and not more often than this
}

// attempt is what became of an item the last time, for one that is listed again.
type attempt struct {
	version  uint64
	failures int
	err      error
	at       time.Time
}

// progress is what a runner remembers.
type progress struct {
	working map[string]item
	past    map[string]attempt
}

type ended struct {
	item item
	err  error
}

// run works until ctx ends.
func (r runner) run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	results := make(chan ended)
	p := progress{working: map[string]item{}, past: map[string]attempt{}}
	for ctx.Err() == nil {
		began := time.Now()
		tx := r.snapshot()
		items := r.items(tx)
		p.forget(items)
		start, wake := p.pick(items, r.parallel, r.now(), r.retry)
		metrics.SetGaugeWithLabels([]string{"control", "waiting"}, float32(len(items)-len(start)), []metrics.Label{{Name: "loop", Value: r.name}})
		for _, it := range start {
			p.working[it.key] = it
			workers.Go(func() {
				select {
				case results <- ended{it, it.act(ctx)}:
				case <-ctx.Done():
				}
			})
		}
		r.pause(ctx, max(r.gap, 2*time.Since(began)))
		r.wait(ctx, tx, wake, results, &p)
	}
}

// pause keeps a list that takes long to make from being made all the time.
func (r runner) pause(ctx context.Context, gap time.Duration) {
	if gap < time.Millisecond {
		return
	}
	select {
	case <-time.After(gap):
	case <-ctx.Done():
	}
}

// wait returns when the list is to be made anew.
func (r runner) wait(ctx context.Context, tx *state.Read, wake time.Time, results <-chan ended, p *progress) {
	if r.every > 0 && (wake.IsZero() || wake.After(r.now().Add(r.every))) {
		wake = r.now().Add(r.every)
	}
	var timer <-chan time.Time
	if !wake.IsZero() {
		t := time.NewTimer(max(0, wake.Sub(r.now())))
		defer t.Stop()
		timer = t.C
	}
	watch, stop := context.WithCancel(ctx)
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		_ = r.store.Wait(watch, tx) // ends by a change or by stop: either is the answer
	}()
	defer func() { stop(); <-changed }()
	select {
	case e := <-results:
		r.settle(ctx, e, p)
		for more := true; more; { // whatever else has ended: one new list will do
			select {
			case e := <-results:
				r.settle(ctx, e, p)
			default:
				more = false
			}
		}
	case <-changed:
	case <-timer:
	case <-ctx.Done():
	}
}

func (r runner) settle(ctx context.Context, e ended, p *progress) {
	if e.err != nil && ctx.Err() == nil {
		r.logger.Warn("a step failed and is tried again", "loop", r.name, "step", e.item.key, "error", e.err)
	}
	p.end(e, r.now())
}

// end notes what became of an item.
func (p *progress) end(e ended, now time.Time) {
	delete(p.working, e.item.key)
	a := attempt{version: e.item.version, err: e.err, at: now, failures: 1}
	if before, ok := p.past[e.item.key]; ok && (e.err != nil || before.version == e.item.version) {
		a.failures += before.failures
	}
	p.past[e.item.key] = a
}

// forget drops what is known of items that are listed no more.
func (p *progress) forget(items []item) {
	listed := make(map[string]bool, len(items))
	for _, it := range items {
		listed[it.key] = true
	}
	for key := range p.past {
		if !listed[key] {
			delete(p.past, key)
		}
	}
}

// pick chooses what to begin, and says when the next item comes due that has to wait for nothing else.
func (p *progress) pick(items []item, parallel int, now time.Time, retry Backoff) (start []item, wake time.Time) {
	serials, groups := map[string]bool{}, map[string]int{}
	take := func(it item) {
		serials[it.serial] = true
		groups[it.group]++
	}
	for _, it := range p.working {
		take(it)
	}
	for _, it := range items {
		if _, working := p.working[it.key]; working {
			continue
		}
		if due := p.due(it, retry); due.After(now) {
			if wake.IsZero() || due.Before(wake) {
				wake = due
			}
			continue
		}
		if it.serial != "" && serials[it.serial] || groups[it.group] >= parallel {
			continue // the end of one of those makes a new list
		}
		take(it)
		start = append(start, it)
	}
	return start, wake
}

// due is when an item may be begun. One that failed, or that was done and is listed again though nothing
// about it has changed, waits longer each time.
func (p *progress) due(it item, retry Backoff) time.Time {
	last, ok := p.past[it.key]
	if !ok || last.err == nil && last.version != it.version {
		return it.due
	}
	if again := last.at.Add(retry.After(last.failures)); again.After(it.due) {
		return again
	}
	return it.due
}
