package loadshed

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"berth/structs"
)

// Rejected is the text of the rejection of a read.
const Rejected = "this server is overloaded"

// MinAdmit is the number of reads of one window that a server admits always.
const MinAdmit = 16

// The times of a gate, for servers whose answers may take some tenths of a second at worst.
const (
	gateWindow  = 50 * time.Millisecond  // between two decisions
	gateDelay   = 30 * time.Millisecond  // the most that a byte may take
	gateSoonest = 200 * time.Millisecond // the least retry time of a rejected read
	gateLatest  = 5 * time.Second        // the largest
)

const (
	probesPerWindow = 5
	calmWindows     = 10      // windows with few reads after which the gate stops watching
	scale           = 1 << 16 // all reads, of which a share is rejected
)

// Gate rejects a part of the reads of an overloaded server, so that the admitted ones are answered soon, and
// the others are rejected at once.
//
// Most of the queue of an overloaded server cannot be counted: it is in the sockets, in the kernel's list of
// ready sockets, among the goroutines that could run. So the gate measures its delay. A byte through a pipe
// takes the same path as the bytes of a request, and the time until its reader runs is the time that requests
// wait. While that is too long, the gate limits reads to somewhat fewer than were served meanwhile. It raises
// the limit as soon as the time is short.
//
//   - Some reads are always admitted (MinAdmit), so a server with little load rejects nothing while other
//     programs use the machine.
//   - The decision is a pure function of the samples (control.step).
//   - The gate does not wake a server without reads.
//
// Before Run, a gate admits all reads.
type Gate struct {
	minAdmit int

	seen      atomic.Int64  // reads of this window
	rejected  atomic.Int64  // reads of this window
	share     atomic.Uint64 // of the reads that are rejected, of scale
	remainder atomic.Uint64 // shares added up: with each whole one a read is rejected
	wake      chan struct{} // of capacity 1: there are reads again
	interval  atomic.Int64  // nanoseconds between the retries of two rejected reads

	pacer   pacer
	mu      sync.Mutex
	control control
}

// NewGate returns a gate that admits all reads until Run runs, and always minAdmit reads of a window.
func NewGate(minAdmit int) *Gate {
	return &Gate{
		minAdmit: minAdmit,
		wake:     make(chan struct{}, 1),
		pacer: pacer{
			soonest: gateSoonest,
			latest:  gateLatest,
		},
	}
}

// Admit admits a read, or rejects it with the time after which to retry.
func (g *Gate) Admit() error {
	n := g.seen.Add(1)
	if n == int64(g.minAdmit) {
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}

	share := g.share.Load()
	if share == 0 || n <= int64(g.minAdmit) {
		return nil
	}

	sum := g.remainder.Add(share)
	if sum/scale == (sum-share)/scale {
		return nil
	}

	g.rejected.Add(1)
	interval := time.Duration(g.interval.Load())
	return structs.Busy(g.pacer.retryAfter(0, interval), Rejected)
}

// Sample has the observations of a window.
type Sample struct {
	Took     time.Duration // the window
	Seen     int           // reads
	Admitted int           // admitted reads
	Delay    time.Duration // the least that a byte took
}

// Observe makes the decision after a window.
func (g *Gate) Observe(s Sample) {
	g.mu.Lock()
	defer g.mu.Unlock()
	share := g.control.step(g.minAdmit, s)
	g.share.Store(uint64(share * scale))
	if limit := g.control.limit; limit > 0 {
		g.interval.Store(int64(float64(time.Second) / limit))
	}
}

// Run times bytes and decides until ctx ends, and counts the rejected reads. It ends early if bytes cannot be
// sent. Then all reads are admitted.
func (g *Gate) Run(ctx context.Context) error {
	p, err := newProbe()
	if err != nil {
		return err
	}

	var reader sync.WaitGroup
	reader.Go(p.readBytes)
	defer reader.Wait()
	defer p.close()
	g.run(ctx, p)
	return nil
}

func (g *Gate) run(ctx context.Context, p prober) {
	for {
		select {
		case <-g.wake:
			g.watch(ctx, p)
		case <-ctx.Done():
			return
		}
	}
}

// watch decides after each window until there are few reads for some time.
func (g *Gate) watch(ctx context.Context, p prober) {
	tick := time.NewTicker(gateWindow / probesPerWindow)
	defer tick.Stop()
	begin := time.Now()
	g.seen.Store(0)
	probes, calm := 0, 0
	for calm < calmWindows {
		p.send()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}

		probes++
		took := time.Since(begin)
		if probes < probesPerWindow && took < gateWindow {
			continue
		}

		probes = 0
		begin = begin.Add(took)
		calm++
		if g.window(took, p.least()) >= g.minAdmit {
			calm = 0
		}
	}
}

// window ends a window, and returns how many reads were seen in it.
func (g *Gate) window(took, delay time.Duration) (seen int) {
	seen = int(g.seen.Swap(0))
	rejected := int(g.rejected.Swap(0))
	g.Observe(Sample{
		Took:     took,
		Seen:     seen,
		Admitted: seen - rejected,
		Delay:    delay,
	})

	if rejected > 0 {
		CountRejected("reads", rejected)
	}

	return seen
}
