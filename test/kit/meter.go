package kit

import (
	"flag"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// serversGOGC is the GOGC of a server (agent.go), with which these benchmarks run.
const serversGOGC = 200

// Meter measures a benchmark's loop: wall time, the CPU time of the process (more reliable on a machine with
// other users), and the allocated memory. The numbers include the collector. A collection traverses the whole
// heap, and its cost belongs evenly to the many units between two collections. So if three or more
// collections ended during the loop, the result is the part between the end of the first and of the last.
type Meter struct {
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

// BeginMeter measures from now on, with the collector as seldom as in a server.
func BeginMeter(b *testing.B) *Meter {
	was := debug.SetGCPercent(serversGOGC)
	b.Cleanup(func() { debug.SetGCPercent(was) })
	runtime.GC() // garbage of the setup does not belong to the loop
	b.ReportAllocs()
	m := &Meter{b: b, begun: time.Now()}
	m.watchCollector()
	b.ResetTimer()
	m.since = usage()
	return m
}

// watchCollector counts the collections from now on: each frees an unreferenced value.
func (m *Meter) watchCollector() {
	runtime.SetFinalizer(new(*Meter), func(**Meter) {
		m.collected.Add(1)
		if !m.over.Load() {
			m.watchCollector()
		}
	})
}

// usage returns the usage of the process since its start.
func usage() amount {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/tiny/allocs:objects"},
		{Name: "/gc/heap/allocs:bytes"},
	}

	metrics.Read(s)
	return amount{
		clock:   time.Duration(time.Now().UnixNano()),
		cpu:     cpuNow(),
		objects: s[0].Value.Uint64() + s[1].Value.Uint64(),
		bytes:   s[2].Value.Uint64(),
	}
}

func (a amount) plus(b amount) amount {
	return amount{
		clock:   a.clock + b.clock,
		cpu:     a.cpu + b.cpu,
		objects: a.objects + b.objects,
		bytes:   a.bytes + b.bytes,
	}
}

func (a amount) minus(b amount) amount {
	return amount{
		clock:   a.clock - b.clock,
		cpu:     a.cpu - b.cpu,
		objects: a.objects - b.objects,
		bytes:   a.bytes - b.bytes,
	}
}

// Pause excludes the work until Resume.
func (m *Meter) Pause() {
	if !m.longer {
		m.b.StopTimer()
	}
	m.done = m.usage()
}

// Resume continues after Pause.
func (m *Meter) Resume() {
	if !m.longer {
		m.b.StartTimer()
	}
	m.since = usage()
}

// usage returns the usage of the loop, without pauses.
func (m *Meter) usage() amount {
	running := usage().minus(m.since)
	return m.done.plus(running)
}

// Round counts one more pass through the loop.
func (m *Meter) Round() {
	m.rounds++
	now := m.collected.Load()
	if now == m.seen {
		return
	}

	m.seen = now
	m.last = mark{m.usage(), m.rounds, now}
	if m.first.cycles == 0 {
		m.first = m.last
	}
}

// End reports the usage per unit of work. Each round does the given number of units.
func (m *Meter) End(units int) {
	m.Pause()
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
	cycles := m.last.cycles - m.first.cycles
	m.b.ReportMetric(float64(cycles), "collections")
}

func cpuNow() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for this process
	cpu := u.Utime.Nano() + u.Stime.Nano()
	return time.Duration(cpu)
}

// AtOnce is the number of requests that are made before they are measured. More would make a heap that no
// server has.
const AtOnce = 1024

const (
	wantedCycles = 3               // of the collector, whole ones
	longest      = 8 * time.Second // time in which to wait for them
)

// Loop is b.Loop, but continues until the collector has run a few times. The benchmark's own report covers
// only its regular time.
func (m *Meter) Loop() bool {
	if !m.longer && m.b.Loop() {
		return true
	}

	m.longer = true
	benchtime := flag.Lookup("test.benchtime").Value.String()
	cycles := m.last.cycles - m.first.cycles
	return !strings.HasSuffix(benchtime, "x") &&
		cycles < wantedCycles &&
		time.Since(m.begun) < longest
}

// MeasurePrepared measures do with prepared values. Each value is new, made outside the measured part, and at
// most block of them exist at once.
func MeasurePrepared[R any](b *testing.B, units, block int, prepare func(i int) R, do func(R)) {
	m := BeginMeter(b)
	ready := make([]R, block)
	for i := 0; m.Loop(); i++ {
		if i%block == 0 {
			m.Pause()
			for k := range ready {
				ready[k] = prepare(i + k)
			}
			m.Resume()
		}
		do(ready[i%block])
		m.Round()
	}

	m.End(units)
}

// MeasureRepeated measures repeated calls of do.
func MeasureRepeated(b *testing.B, do func()) {
	m := BeginMeter(b)
	for m.Loop() {
		do()
		m.Round()
	}
	m.End(1)
}
