// Package loadshed refuses a part of the reads when a server is asked for more than it can do, so that those
// it lets in are answered soon and those it does not are told so at once.
//
// The queue of a server that is overloaded stands where nobody counts it: in the sockets, in the kernel's list
// of sockets that have something, among the goroutines that could run. So it is not counted but timed: a byte
// through a pipe goes the way that a request's bytes go, and how long it takes until its reader runs is how
// long requests wait before anybody knows of them. When that is too long for a while, reads are limited to
// somewhat fewer than were served meanwhile, and to more again as soon as it is short.
//
// Its laws:
//
//   - Some reads are let in at any time, however long the bytes take (Config.Few): a server with little to do
//     on a machine that others keep busy refuses nothing.
//   - What is decided is a pure function of what was seen (control.step).
//   - A server that nobody reads from is not woken by it.
//   - What is passed on to another server is that one's to refuse; here a server refuses it only when it is far
//     behind (Gate.Passing).
//
// Which requests are reads that may be refused is left to who asks.
package loadshed

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Refused says why a read is refused, to people.
const Refused = "this server is asked for more than it can answer"

// Config tunes a gate.
type Config struct {
	Window time.Duration // how often it is decided anew
	Delay  time.Duration // how long bytes may take
	Few    int           // reads of one window that are let in whatever happens
	Soonest,
	Latest time.Duration // what who is refused is told, at least and at most
}

// DefaultConfig suits servers whose answers may take some tenths of a second at worst.
func DefaultConfig() Config {
	return Config{Window: 50 * time.Millisecond, Delay: 30 * time.Millisecond, Few: 16, Soonest: 200 * time.Millisecond, Latest: 5 * time.Second}
}

// probesOf is how many bytes are sent in a window.
const probesOf = 5

// one is all reads, where a share of them is meant.
const one = 1 << 16

// Gate lets reads in. Until Run runs it lets all in.
type Gate struct {
	config Config

	seen    atomic.Int64  // reads of this window
	share   atomic.Uint64 // of them that is refused
	carry   atomic.Uint64 // shares added up: with each whole one a read is refused
	refused atomic.Int64  // reads of this window
	wake    chan struct{} // has room for one: there are reads again

	mu      sync.Mutex
	control control
	next    time.Time     // when the next one that is refused had better come again
	apart   time.Duration // how long after the one before

	passing *Gate // goes by the same bytes
}

// farther is how many times as long bytes may take for the sake of reads that are passed on.
const farther = 4

// New makes a gate.
func New(c Config) *Gate {
	g := &Gate{config: c, wake: make(chan struct{}, 1)}
	c.Delay *= farther
	g.passing = &Gate{config: c, wake: g.wake}
	return g
}

// Passing is the gate for reads that this server would only pass on. They are refused by whom they are passed on
// to, which is the other gate's part there; here only when this server is so far behind that it cannot even
// pass them on in time. To pass one on costs no less than to answer it, so somebody has to.
func (g *Gate) Passing() *Gate { return g.passing }

// Refuses reports whether some reads are refused as of now, so that it is worth while to ask Admit early.
func (g *Gate) Refuses() bool { return g.share.Load() > 0 }

// Admit lets a read in, or says after how long it may come again.
func (g *Gate) Admit() (again time.Duration, ok bool) {
	n := g.seen.Add(1)
	if n == int64(g.config.Few) {
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
	share := g.share.Load()
	if share == 0 || n <= int64(g.config.Few) {
		return 0, true
	}
	if sum := g.carry.Add(share); sum/one == (sum-share)/one {
		return 0, true
	}
	g.refused.Add(1)
	return g.again(), false
}

// again is another time for each, so that those who are refused come back as fast as reads are let in.
func (g *Gate) again() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if first := now.Add(g.config.Soonest); g.next.Before(first) {
		g.next = first
	}
	g.next = g.next.Add(g.apart)
	if last := now.Add(g.config.Latest); g.next.After(last) {
		g.next = last
	}
	return g.next.Sub(now).Round(time.Millisecond)
}

// Sample is what was seen in a window.
type Sample struct {
	Took  time.Duration // the window
	Seen  int           // reads
	In    int           // of them that were let in
	Delay time.Duration // the least that a byte took
}

// Observe decides anew after a window.
func (g *Gate) Observe(s Sample) {
	g.mu.Lock()
	defer g.mu.Unlock()
	share := g.control.step(&g.config, s)
	g.share.Store(uint64(share * one))
	if g.control.limit > 0 {
		g.apart = time.Duration(float64(time.Second) / g.control.limit)
	}
}

// calmWindows is after how many windows with few reads nobody looks any more.
const calmWindows = 10

// Run times and decides until ctx ends, and counts the reads that were refused. It ends early where bytes cannot
// be sent; then all reads are let in.
func (g *Gate) Run(ctx context.Context) error {
	p, err := newProbe()
	if err != nil {
		return err
	}
	var reader sync.WaitGroup
	reader.Go(p.read)
	defer reader.Wait()
	defer p.close()
	g.run(ctx, p, func(n int) { CountRefused("reads", n) })
	return nil
}

func (g *Gate) run(ctx context.Context, p prober, refused func(int)) {
	for {
		select {
		case <-g.wake:
			g.watch(ctx, p, refused)
		case <-ctx.Done():
			return
		}
	}
}

// watch decides after each window until there are few reads for some time.
func (g *Gate) watch(ctx context.Context, p prober, refused func(int)) {
	tick := time.NewTicker(g.config.Window / probesOf)
	defer tick.Stop()
	begin := time.Now()
	g.seen.Store(0)
	g.passing.seen.Store(0)
	for n, calm := 1, 0; calm < calmWindows; n++ {
		p.send()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		took := time.Since(begin)
		if n%probesOf != 0 && took < g.config.Window {
			continue
		}
		n, begin = 0, begin.Add(took)
		delay := p.least()
		seen, out := g.window(took, delay)
		passing, notPassed := g.passing.window(took, delay)
		if calm++; max(seen, passing) >= g.config.Few {
			calm = 0
		}
		if out+notPassed > 0 {
			refused(out + notPassed)
		}
	}
}

// window ends a window; it returns how many reads were seen in it, and how many of them refused.
func (g *Gate) window(took, delay time.Duration) (seen, out int) {
	seen, out = int(g.seen.Swap(0)), int(g.refused.Swap(0))
	g.Observe(Sample{Took: took, Seen: seen, In: seen - out, Delay: delay})
	return seen, out
}
