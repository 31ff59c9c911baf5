package statebench

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// timer couples the benchmark's clock with the process's CPU time, which says
// more than the wall clock on a shared machine. (It includes the collector.)
type timer struct {
	b     *testing.B
	cpu   time.Duration
	since time.Duration
}

func cpuNow() time.Duration {
	var ru syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func startTimer(b *testing.B) *timer {
	runtime.GC() // what filling the store left behind is not the loop's
	b.ReportAllocs()
	t := &timer{b: b}
	b.ResetTimer()
	t.since = cpuNow()
	return t
}

func (t *timer) stop()  { t.b.StopTimer(); t.cpu += cpuNow() - t.since }
func (t *timer) start() { t.since = cpuNow(); t.b.StartTimer() }

// done reports per unit of work, of which each round does so many.
func (t *timer) done(units int) {
	t.b.StopTimer()
	t.cpu += cpuNow() - t.since
	t.b.ReportMetric(float64(t.b.Elapsed().Nanoseconds())/float64(t.b.N)/float64(units), "ns/unit")
	t.b.ReportMetric(float64(t.cpu.Nanoseconds())/float64(t.b.N)/float64(units), "cpu-ns/unit")
}
