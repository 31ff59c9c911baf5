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

// lane sends requests to a server without waiting for the answers to earlier requests.
type lane interface {
	// send sends request n as soon as the lane is free. An error before the call of sending means that the lane
	// is broken and the request stays unsent.
	send(ctx context.Context, n int, a attempt) error
	// flush is called when no further request is due now.
	flush() error
	// close ends the lane. Requests in flight may get an error.
	close()
}

// attempt is one transmission of a request. Its lane calls both methods.
type attempt interface {
	// sending is called when the request goes out.
	sending()
	// answered is called once after that, in another goroutine, unless send returns an error.
	answered(error)
}

// offer is a load with a fixed rate, independent of the answers: the i-th request is due at i/rate, and its
// time counts from then, also if it could only be sent later. So a server that stalls, or a full connection,
// shows in the times of all waiting requests.
type offer struct {
	rate   float64 // requests a second
	time   time.Duration
	honour bool // rejected requests are repeated at their retry times, until they succeed
}

// lateness bounds the time after the end of a load in which it still sends and then waits for answers.
const lateness = 10 * time.Second

// answers is the result of an offer.
type answers struct {
	mu       sync.Mutex
	over     bool      // further answers do not count
	end      time.Time // of the offering
	took     []time.Duration
	rejected []time.Duration // of rejections: attempts, each from when it was due
	advised  int             // rejections with a retry time
	served   []time.Duration // of the good ones, from when they were sent
	within   int             // good answers before the end
	failed   int             // neither good nor rejected
	last     error           // one of those
	unsent   int             // due, or due again, but not sent in time
	sent     int             // attempts
	lag      []time.Duration // from when an attempt was due until it was sent
	finished time.Duration   // after how long everything was answered
}

// due is a request and the time at which to send it. first is its first such time.
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

	mu          sync.Mutex
	again       dues
	open        int           // requests in flight
	answeredOne chan struct{} // something was answered
	timer       *time.Timer
}

// run offers a load on all lanes. It returns when all requests are answered, or after lateness.
func (o offer) run(ctx context.Context, lanes []lane) *answers {
	ctx, cancel := context.WithTimeout(ctx, o.time+lateness)
	defer cancel()
	start := time.Now()
	a := &answers{end: start.Add(o.time)}
	var wg sync.WaitGroup
	pacers := make([]*pacer, len(lanes))
	for i, l := range lanes {
		p := &pacer{
			o:           o,
			lane:        l,
			start:       start,
			next:        i,
			step:        len(lanes),
			total:       int(o.rate * o.time.Seconds()),
			answers:     a,
			answeredOne: make(chan struct{}, 1),
		}
		pacers[i] = p
		wg.Go(func() { p.run(ctx) })
	}
	wg.Wait()
	a.close(time.Since(start))
	for _, p := range pacers {
		a.unsent += p.unsent()
	}
	return a
}

func (p *pacer) run(ctx context.Context) {
	p.timer = time.NewTimer(0)
	defer p.timer.Stop()
	for ctx.Err() == nil {
		d, wait := p.upcoming()
		switch {
		case wait > 0 || d.n < 0:
			if p.lane.flush() != nil || !p.pause(ctx, d, wait) {
				return
			}
		case !p.send(ctx, d):
			return
		}
	}
}

// upcoming returns the next request and the time until it is due. n is -1 without a request.
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

// pause waits until the next request is due, or for an answer if no request is left. It returns false at the
// end of the load.
func (p *pacer) pause(ctx context.Context, d due, wait time.Duration) (more bool) {
	var at <-chan time.Time
	if d.n >= 0 {
		p.timer.Reset(wait)
		at = p.timer.C
	} else if p.idle() {
		return false
	}
	select {
	case <-at:
	case <-p.answeredOne:
	case <-ctx.Done():
	}
	return true
}

func (p *pacer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open == 0 && len(p.again) == 0 && p.next >= p.total
}

// unsent returns the number of requests that were due and not sent.
func (p *pacer) unsent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return (max(0, p.total-p.next)+p.step-1)/p.step + len(p.again)
}

// send sends a request as soon as the lane is free. It returns false if the lane is broken.
func (p *pacer) send(ctx context.Context, d due) (more bool) {
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	f := &flight{pacer: p, due: d}
	err := p.lane.send(ctx, d.n, f)
	switch {
	case err == nil:
	case f.sent.IsZero():
		p.mu.Lock()
		p.open--
		heap.Push(&p.again, d)
		p.mu.Unlock()
	default:
		f.answered(err)
	}
	return err == nil
}

// flight is one attempt of a pacer.
type flight struct {
	*pacer
	due
	sent time.Time
	done atomic.Bool
}

func (f *flight) sending() {
	f.sent = time.Now()
	f.pacer.answers.recordSend(f.sent.Sub(f.due.time))
}

func (f *flight) answered(err error) {
	if !f.done.CompareAndSwap(false, true) {
		return
	}
	p, d := f.pacer, f.due
	p.answers.record(f, err)
	p.mu.Lock()
	p.open--
	if after := structs.RetryAfter(err); p.o.honour && after > 0 {
		after += rand.N(after) // berth's clients vary their delay, too
		heap.Push(&p.again, due{d.n, d.first, time.Now().Add(after)})
	}
	p.mu.Unlock()
	select {
	case p.answeredOne <- struct{}{}:
	default:
	}
}

// close is called after the last request was sent. Later answers do not count.
func (a *answers) close(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over, a.finished = true, after
	for _, times := range [][]time.Duration{a.took, a.served, a.rejected, a.lag} {
		slices.Sort(times)
	}
}

func (a *answers) recordSend(lag time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	a.lag = append(a.lag, lag)
}

func (a *answers) record(f *flight, err error) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
	case err == nil || isOvertaken(err):
		a.took = append(a.took, now.Sub(f.first))
		a.served = append(a.served, now.Sub(f.sent))
		if now.Before(a.end) {
			a.within++
		}
	case structs.IsKind(err, structs.KindUnavailable):
		a.rejected = append(a.rejected, now.Sub(f.due.time))
		if structs.RetryAfter(err) > 0 {
			a.advised++
		}
	default:
		a.failed++
		a.last = err
	}
}
