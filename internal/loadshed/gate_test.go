package loadshed

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-metrics"
	"go.uber.org/goleak"

	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeProbe is a prober whose delay the test sets.
type fakeProbe struct {
	delay atomic.Int64
	sent  atomic.Int64
}

func (s *fakeProbe) send() { s.sent.Add(1) }

func (s *fakeProbe) least() time.Duration { return time.Duration(s.delay.Load()) }

// startGate runs a gate whose windows pass in virtual time.
func startGate(t *testing.T) (*Gate, *fakeProbe) {
	g := NewGate(MinAdmit)
	p := &fakeProbe{}
	var run sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	run.Go(func() { g.run(ctx, p) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
	})
	return g, p
}

// makeReads makes a number of reads in each of some windows, and returns the number of rejections.
func makeReads(t *testing.T, g *Gate, windows, each int) (rejected int) {
	t.Helper()
	for range windows {
		for range each {
			err := g.Admit()
			if err == nil {
				continue
			}
			rejected++
			after := structs.RetryAfter(err)
			if !structs.IsKind(err, structs.KindUnavailable) || after < gateSoonest || after > gateLatest {
				t.Fatalf("got %v with retry time %s, want unavailable with %s to %s",
					err, after, gateSoonest, gateLatest)
			}
		}
		time.Sleep(gateWindow)
	}
	return rejected
}

func TestGate_RejectsWhileBytesTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := startGate(t)
		makeReads(t, g, 1, g.minAdmit)
		time.Sleep(gateWindow / 2) // its windows end between those of makeReads
		if n := makeReads(t, g, 20, 1000); n > 0 {
			t.Errorf("%d reads are rejected before bytes take long, want none", n)
		}
		p.delay.Store(int64(time.Second))
		if n := makeReads(t, g, 20, 1000); n < 5000 || n > 18000 {
			t.Errorf("%d of 20,000 reads are rejected, want 5,000 to 18,000", n)
		}
		p.delay.Store(0)
		makeReads(t, g, 2, 50)
		if n := makeReads(t, g, 20, 50); n > 0 {
			t.Errorf("%d reads are rejected after bytes took long, want none", n)
		}
	})
}

func TestGate_AlwaysAdmitsAFewReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := startGate(t)
		p.delay.Store(int64(time.Hour))
		makeReads(t, g, 100, 1000)
		time.Sleep(gateWindow)
		for range 100 {
			if n := makeReads(t, g, 1, g.minAdmit); n > 0 {
				t.Fatalf("%d of the least number of reads are rejected, want none", n)
			}
			time.Sleep(gateWindow) // past any border of a window
		}
	})
}

func TestGate_SleepsWithoutReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := startGate(t)
		makeReads(t, g, 1, g.minAdmit-1)
		time.Sleep(time.Hour)
		if n := p.sent.Load(); n > 0 {
			t.Errorf("%d bytes are sent for few reads, want none", n)
		}
		makeReads(t, g, 3, 100)
		time.Sleep(time.Hour)
		if n := p.sent.Load(); n == 0 || n > 10*probesPerWindow*calmWindows {
			t.Errorf("%d bytes are sent in an hour, want some for a few windows", n)
		}
	})
}

func TestGate_SpreadsTheRetryTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(MinAdmit)
		for range 3 {
			g.Observe(Sample{Took: time.Second, Seen: 1000, Admitted: 1000, Delay: time.Minute})
		}
		for range g.minAdmit {
			g.Admit()
		}
		times := map[time.Duration]bool{}
		var last time.Duration
		for range 1000 {
			if after := structs.RetryAfter(g.Admit()); after > 0 {
				times[after] = true
				last = max(last, after)
			}
		}
		if len(times) < 100 || last < gateSoonest+100*time.Millisecond {
			t.Errorf("got %d different retry times up to %s, want at least 100", len(times), last)
		}
	})
}

func TestGate_CountsTheReadsThatItRejects(t *testing.T) {
	config := metrics.DefaultConfig("test")
	config.EnableHostname = false
	config.EnableRuntimeMetrics = false
	sink := metrics.NewInmemSink(time.Hour, time.Hour)
	if _, err := metrics.NewGlobal(config, sink); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = metrics.NewGlobal(config, &metrics.BlackholeSink{}) }()
	g := NewGate(MinAdmit)
	for range 3 {
		g.Observe(Sample{Took: time.Second, Seen: 1000, Admitted: 1000, Delay: time.Minute})
	}
	rejected := 0.0
	for range 1000 {
		if g.Admit() != nil {
			rejected++
		}
	}
	g.window(time.Second, 0)
	g.window(time.Second, 0) // counts none again
	got := sink.Data()[0].Counters["test.rpc.rejected;limit=reads"]
	if rejected == 0 || got.AggregateSample == nil || got.Sum != rejected {
		t.Errorf("%.0f reads are rejected, the counter has %+v", rejected, got)
	}
}

func TestProbe_TimesAByte(t *testing.T) {
	p, err := newProbe()
	if err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(p.readBytes)
	p.send()
	for p.least() == 0 { // until it has arrived, or takes some time
		if t.Context().Err() != nil {
			t.Fatal("the probe times no byte")
		}
	}
	p.close()
	reader.Wait()
}

func TestProbe_TimesAByteOnItsWay(t *testing.T) {
	p, err := newProbe() // without a reader
	if err != nil {
		t.Fatal(err)
	}
	defer p.out.Close()
	defer p.close()
	p.send()
	p.send() // none is added
	first := p.least()
	if second := p.least(); first <= 0 || second < first {
		t.Errorf("a byte on its way takes %s and then %s, want a growing time", first, second)
	}
}

func TestGate_RunEndsWithItsContext(t *testing.T) {
	g := NewGate(MinAdmit)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	for range 100 {
		g.Admit()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
