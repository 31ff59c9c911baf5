package loadshed

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"berth/structs"
)

// Refused is the text of the refusal of a read.
const Refused = "this server is asked for more than it can answer"

// GateConfig tunes a gate.
type GateConfig struct {
	Window   time.Duration // how often the gate decides anew
	Delay    time.Duration // how long a byte may take
	MinAdmit int           // reads of one window that are let in whatever happens
	Soonest  time.Duration // the least and the most after which a refused read may come back
	Latest   time.Duration
}

// DefaultGateConfig suits servers whose answers may take some tenths of a second at worst.
func DefaultGateConfig() GateConfig {
	return GateConfig{
		Window:   50 * time.Millisecond,
		Delay:    30 * time.Millisecond,
		MinAdmit: 16,
		Soonest:  200 * time.Millisecond,
		Latest:   5 * time.Second,
	}
}

const (
	probesPerWindow = 5
	calmWindows     = 10      // windows with few reads after which the gate stops to watch
	scale           = 1 << 16 // all reads, of which a share is refused
)

// Gate refuses a part of the reads when a server is asked for more than it can do, so that those that it
// lets in are answered soon, and the others are refused at once.
//
// Most of the queue of an overloaded server is where nobody can count it: in the sockets, in the kernel's
// list of ready sockets, among the goroutines that could run. So the gate times it. A byte through a pipe
// goes the way of the bytes of a request, and the time until its reader runs is the time that requests wait.
// While that is too long, reads are limited to somewhat fewer than were served meanwhile, and to more again
// as soon as it is short.
//
//   - Some reads are let in at any time (GateConfig.MinAdmit): a server with little to do on a machine that
//     others keep busy refuses nothing.
//   - The decision is a pure function of what was seen (control.step).
//   - The gate does not wake a server that nobody reads from.
//
// Until Run runs, a gate lets all reads in.
type Gate struct {
	config GateConfig

	seen      atomic.Int64  // reads of this window
	refused   atomic.Int64  // reads of this window
	share     atomic.Uint64 // of the reads that are refused, of scale
	remainder atomic.Uint64 // shares added up: with each whole one a read is refused
	wake      chan struct{} // has room for one: there are reads again
	interval  atomic.Int64  // nanoseconds between two refused reads that come back

	pacer   pacer
	mu      sync.Mutex
	control control
}

// NewGate returns a gate that lets all reads in.
func NewGate(c GateConfig) *Gate {
	return &Gate{
		config: c,
		wake:   make(chan struct{}, 1),
		pacer:  pacer{soonest: c.Soonest, latest: c.Latest},
	}
}

// Admit lets a read in, or refuses it with the time after which it may come back.
func (g *Gate) Admit() error {
	n := g.seen.Add(1)
	if n == int64(g.config.MinAdmit) {
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
	share := g.share.Load()
	if share == 0 || n <= int64(g.config.MinAdmit) {
		return nil
	}
	sum := g.remainder.Add(share)
	if sum/scale == (sum-share)/scale {
		return nil
	}
	g.refused.Add(1)
	return structs.Busy(g.pacer.after(0, time.Duration(g.interval.Load())), Refused)
}

// Sample is what was seen in a window.
type Sample struct {
	Took     time.Duration // the window
	Seen     int           // reads
	Admitted int           // reads that were let in
	Delay    time.Duration // the least that a byte took
}

// Observe decides anew after a window.
func (g *Gate) Observe(s Sample) {
	g.mu.Lock()
	defer g.mu.Unlock()
	share := g.control.step(&g.config, s)
	g.share.Store(uint64(share * scale))
	if g.control.limit > 0 {
		g.interval.Store(int64(float64(time.Second) / g.control.limit))
	}
}

// Run times bytes and decides until ctx ends, and counts the refused reads. It ends early if bytes cannot be
// sent; then all reads are let in.
func (g *Gate) Run(ctx context.Context) error {
	p, err := newProbe()
	if err != nil {
		return err
	}
	var reader sync.WaitGroup
	reader.Go(p.read)
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
	tick := time.NewTicker(g.config.Window / probesPerWindow)
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
		if probes < probesPerWindow && took < g.config.Window {
			continue
		}
		probes = 0
		begin = begin.Add(took)
		calm++
		if g.window(took, p.least()) >= g.config.MinAdmit {
			calm = 0
		}
	}
}

// window ends a window, and returns how many reads were seen in it.
func (g *Gate) window(took, delay time.Duration) (seen int) {
	seen = int(g.seen.Swap(0))
	refused := int(g.refused.Swap(0))
	g.Observe(Sample{Took: took, Seen: seen, Admitted: seen - refused, Delay: delay})
	if refused > 0 {
		CountRefused("reads", refused)
	}
	return seen
}
