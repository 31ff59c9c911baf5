package main

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth/structs"
)

// lane is a way to a server on which requests are sent without waiting for the answers of others.
type lane interface {
	// send begins request n. answered is called once, in another goroutine, unless send fails.
	send(n int, answered func(error)) error
	// flush is called when nothing more is due at once.
	flush() error
	// close ends it; what is under way is answered with an error, if at all.
	close()
}

// offer is a load that is sent at its rate, whatever comes back: the i-th request is due at i/rate, and what
// it takes is counted from then, also when it could only be sent later. So a server that stalls, or a
// connection that takes no more, shows in the times of all who had to wait for it.
type offer struct {
	rate   float64 // requests a second
	time   time.Duration
	honour bool // what is refused comes again when it was told to, until it is done
}

// lateness bounds how long after its end a load still sends, and then waits for answers.
const lateness = 10 * time.Second

// answers is what came of an offer.
type answers struct {
	mu       sync.Mutex
	over     bool      // what is answered now is not counted
	end      time.Time // of the offering
	took     []time.Duration
	refused  []time.Duration // of refusals: attempts, each from when it was due
	advised  int             // refusals that say when to come again
	within   int             // good answers before the end
	failed   int             // neither good nor refused
	last     error           // one of those
	unsent   int             // due, but never sent
	sent     int
	lag      []time.Duration // how late requests were sent
	finished time.Duration   // after how long everything was answered
}

// due is a request to be sent at a time; first is when it was due first.
type due struct {
	n           int
	first, time time.Time
}

type dues []due

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].time.Before(d[j].time) }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// pacer sends the share of one lane.
type pacer struct {
	o     offer
	lane  lane
	start time.Time
	next  int // the next of its own, which are step apart
	step  int
	total int
	*answers

	mu    sync.Mutex
	again dues
	open  int           // requests under way
	poke  chan struct{} // something was answered
}

// run offers a load on all lanes and returns when everything is answered, or lateness is over.
func (o offer) run(ctx context.Context, lanes []lane) *answers {
	ctx, cancel := context.WithTimeout(ctx, o.time+lateness)
	defer cancel()
	start := time.Now()
	a := &answers{end: start.Add(o.time)}
	total := int(o.rate * o.time.Seconds())
	var wg sync.WaitGroup
	for i, l := range lanes {
		p := &pacer{o: o, lane: l, start: start, next: i, step: len(lanes), total: total, answers: a, poke: make(chan struct{}, 1)}
		wg.Go(func() { p.run(ctx) })
	}
	wg.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over, a.finished = true, time.Since(start)
	a.unsent = max(0, total-a.sent)
	if o.honour {
		a.unsent = 0
	}
	slices.Sort(a.took)
	slices.Sort(a.refused)
	slices.Sort(a.lag)
	return a
}

func (p *pacer) run(ctx context.Context) {
	for ctx.Err() == nil {
		d, wait := p.upcoming()
		switch {
		case wait > 0 || d.n < 0:
			if p.lane.flush() != nil || !p.pause(ctx, d, wait) {
				return
			}
		case !p.send(d):
			return
		}
	}
}

// upcoming is the next request to be sent, and how long until then; n is -1 when there is none now.
func (p *pacer) upcoming() (due, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := due{n: -1}
	if p.next < p.total {
		at := p.start.Add(time.Duration(float64(p.next) / p.o.rate * float64(time.Second)))
		own = due{p.next, at, at}
	}
	if len(p.again) > 0 && (own.n < 0 || p.again[0].time.Before(own.time)) {
		own = p.again[0]
		if wait := time.Until(own.time); wait > 0 {
			return own, wait
		}
		heap.Pop(&p.again)
		return own, 0
	}
	if own.n < 0 {
		return own, 0
	}
	if wait := time.Until(own.time); wait > 0 {
		return own, wait
	}
	p.next += p.step
	return own, 0
}

// pause waits for the next request's time, or for an answer when nothing is left to send; false at the end.
func (p *pacer) pause(ctx context.Context, d due, wait time.Duration) (more bool) {
	var at <-chan time.Time
	if d.n >= 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		at = t.C
	} else if p.idle() {
		return false
	}
	select {
	case <-at:
	case <-p.poke:
	case <-ctx.Done():
	}
	return true
}

func (p *pacer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open == 0 && len(p.again) == 0 && p.next >= p.total
}

func (p *pacer) send(d due) bool {
	p.answers.sending(time.Since(d.time))
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	var once atomic.Bool
	answered := func(err error) {
		if once.CompareAndSwap(false, true) {
			p.answered(d, err)
		}
	}
	err := p.lane.send(d.n, answered)
	if err != nil {
		answered(err)
	}
	return err == nil
}

func (p *pacer) answered(d due, err error) {
	p.answers.note(d, err)
	p.mu.Lock()
	p.open--
	if after := structs.RetryAfter(err); p.o.honour && after > 0 {
		after += rand.N(after) // as the clients of the house do
		heap.Push(&p.again, due{d.n, d.first, time.Now().Add(after)})
	}
	p.mu.Unlock()
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

func (a *answers) sending(lag time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	a.lag = append(a.lag, lag)
}

func (a *answers) note(d due, err error) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
	case err == nil || overtaken(err):
		a.took = append(a.took, now.Sub(d.first))
		if now.Before(a.end) {
			a.within++
		}
	case structs.IsKind(err, structs.KindUnavailable):
		a.refused = append(a.refused, now.Sub(d.time))
		if structs.RetryAfter(err) > 0 {
			a.advised++
		}
	default:
		a.failed, a.last = a.failed+1, err
	}
}
