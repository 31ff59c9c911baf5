package statebench

import (
	"flag"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// meter is that of berth's own benchmarks (test/kit) without its setting of the collector, because
// the peer's server leaves the default. It measures the loop of a benchmark: wall time, the CPU time of the
// process (more reliable on a machine with other users), and the allocated memory. The numbers include the
// collector. A collection traverses the whole heap, and its cost belongs evenly to the many units between two
// collections. So if three or more collections ended during the loop, the result is the part between the end
// of the first and of the last.
type meter struct {
	b         *testing.B
	rounds    int
	done      amount       // up to the last pause
	since     amount       // when it continued
	collected atomic.Int64 // collections that have ended
	over      atomic.Bool
	begun     time.Time
	longer    bool // than the benchmark was to run
	seen      int64
	first     mark
	last      mark
}

// amount is the usage, by the process since its start or by the loop.
type amount struct {
	clock, cpu     time.Duration
	objects, bytes uint64 // allocated
}

// mark is how far the loop was when a collection had ended.
type mark struct {
	amount
	rounds int
	cycles int64
}

func begin(b *testing.B) *meter {
	runtime.GC() // garbage of the setup does not belong to the loop
	b.ReportAllocs()
	m := &meter{b: b, begun: time.Now()}
	m.watch()
	b.ResetTimer()
	m.since = used()
	return m
}

// watch counts the collections from now on: each frees an unreferenced value.
func (m *meter) watch() {
	runtime.SetFinalizer(new(*meter), func(**meter) {
		m.collected.Add(1)
		if !m.over.Load() {
			m.watch()
		}
	})
}

func used() amount {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/tiny/allocs:objects"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(s)
	return amount{time.Duration(time.Now().UnixNano()), cpuNow(), s[0].Value.Uint64() + s[1].Value.Uint64(),
		s[2].Value.Uint64()}
}

func (a amount) plus(b amount) amount {
	return amount{a.clock + b.clock, a.cpu + b.cpu, a.objects + b.objects, a.bytes + b.bytes}
}

func (a amount) minus(b amount) amount {
	return amount{a.clock - b.clock, a.cpu - b.cpu, a.objects - b.objects, a.bytes - b.bytes}
}

func (m *meter) pause() {
	if !m.longer {
		m.b.StopTimer()
	}
	m.done = m.done.plus(used().minus(m.since))
}

func (m *meter) resume() {
	if !m.longer {
		m.b.StartTimer()
	}
	m.since = used()
}

// round is one more time through the loop.
func (m *meter) round() {
	m.rounds++
	now := m.collected.Load()
	if now == m.seen {
		return
	}
	m.seen = now
	m.last = mark{m.done.plus(used().minus(m.since)), m.rounds, now}
	if m.first.cycles == 0 {
		m.first = m.last
	}
}

// end reports the metrics per unit of work; units is their number in a round.
func (m *meter) end(units int) {
	m.pause()
	m.over.Store(true)
	before := amount{}
	if m.last.cycles-m.first.cycles >= 2 {
		before = m.first.amount
		m.done = m.last.amount
		m.rounds = m.last.rounds - m.first.rounds
	}
	did := m.done.minus(before)
	n := float64(m.rounds * units)
	m.b.ReportMetric(float64(did.clock)/n, "ns/unit")
	m.b.ReportMetric(float64(did.cpu)/n, "cpu-ns/unit")
	m.b.ReportMetric(float64(did.objects)/n, "allocs/unit")
	m.b.ReportMetric(float64(did.bytes)/n, "B/unit")
	m.b.ReportMetric(float64(m.last.cycles-m.first.cycles), "collections")
}

func cpuNow() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// atOnce is how many requests are made before they are measured: more would be a heap that no server has.
const atOnce = 1024

const (
	wantedCycles = 3               // of the collector, whole ones
	longest      = 8 * time.Second // for which they are waited for
)

// loop is b.Loop, but continues until the collector has run a few times. The benchmark's own report covers
// only its regular time.
func (m *meter) loop() bool {
	if !m.longer && m.b.Loop() {
		return true
	}
	m.longer = true
	times := strings.HasSuffix(flag.Lookup("test.benchtime").Value.String(), "x")
	return !times && m.last.cycles-m.first.cycles < wantedCycles &&
		time.Since(m.begun) < longest
}

// perform measures do with prepared values. Each value is new, made outside the measured part, and at most
// block of them exist at once.
func perform[R any](b *testing.B, units, block int, prepare func(i int) R, do func(R)) {
	m := begin(b)
	ready := make([]R, block)
	for i := 0; m.loop(); i++ {
		if i%block == 0 {
			m.pause()
			for k := range ready {
				ready[k] = prepare(i + k)
			}
			m.resume()
		}
		do(ready[i%block])
		m.round()
	}
	m.end(units)
}

// repeat measures repeated calls of do.
func repeat(b *testing.B, do func()) {
	m := begin(b)
	for m.loop() {
		do()
		m.round()
	}
	m.end(1)
}
