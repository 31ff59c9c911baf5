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

// said is a prober with settable delays.
type said struct {
	delay atomic.Int64
	sent  atomic.Int64
}

func (s *said) send()                { s.sent.Add(1) }
func (s *said) least() time.Duration { return time.Duration(s.delay.Load()) }

// watched is a gate whose windows pass in virtual time.
func watched(t *testing.T) (*Gate, *said) {
	g, p := NewGate(MinAdmit), &said{}
	var run sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	run.Go(func() { g.run(ctx, p) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return g, p
}

// ask makes a number of reads in each of some windows, and returns the number of rejections.
func ask(t *testing.T, g *Gate, windows, each int) (refused int) {
	t.Helper()
	for range windows {
		for range each {
			err := g.Admit()
			if err == nil {
				continue
			}
			refused++
			again := structs.RetryAfter(err)
			if !structs.IsKind(err, structs.KindUnavailable) || again < gateSoonest || again > gateLatest {
				t.Fatalf("%v, again after %s", err, again)
			}
		}
		time.Sleep(gateWindow)
	}
	return refused
}

func TestGate_RefusesWhileBytesTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := watched(t)
		ask(t, g, 1, g.minAdmit)
		time.Sleep(gateWindow / 2) // its windows end between those of ask
		if n := ask(t, g, 20, 1000); n > 0 {
			t.Errorf("%d are refused though all is well", n)
		}
		p.delay.Store(int64(time.Second))
		if n := ask(t, g, 20, 1000); n < 5000 || n > 18000 {
			t.Errorf("%d of 20,000 are refused", n)
		}
		p.delay.Store(0)
		ask(t, g, 2, 50)
		if n := ask(t, g, 20, 50); n > 0 {
			t.Errorf("%d are refused after it is over", n)
		}
	})
}

func TestGate_AlwaysAdmitsAFewReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := watched(t)
		p.delay.Store(int64(time.Hour))
		ask(t, g, 100, 1000)
		time.Sleep(gateWindow)
		for range 100 {
			if n := ask(t, g, 1, g.minAdmit); n > 0 {
				t.Fatalf("%d of few are refused", n)
			}
			time.Sleep(gateWindow) // past any border of a window
		}
	})
}

func TestGate_SleepsWithoutReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := watched(t)
		ask(t, g, 1, g.minAdmit-1)
		time.Sleep(time.Hour)
		if n := p.sent.Load(); n > 0 {
			t.Errorf("%d bytes are sent for few reads", n)
		}
		ask(t, g, 3, 100)
		time.Sleep(time.Hour)
		if n := p.sent.Load(); n == 0 || n > 10*probesPerWindow*calmWindows {
			t.Errorf("%d bytes are sent", n)
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
		told, last := map[time.Duration]bool{}, time.Duration(0)
		for range 1000 {
			if again := structs.RetryAfter(g.Admit()); again > 0 {
				told[again] = true
				last = max(last, again)
			}
		}
		if len(told) < 100 || last < gateSoonest+100*time.Millisecond {
			t.Errorf("%d different times are told, the last %s", len(told), last)
		}
	})
}

func TestGate_CountsTheReadsThatItRefuses(t *testing.T) {
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
	refused := 0.0
	for range 1000 {
		if g.Admit() != nil {
			refused++
		}
	}
	g.window(time.Second, 0)
	g.window(time.Second, 0) // counts none again
	got := sink.Data()[0].Counters["test.rpc.refused;limit=reads"]
	if refused == 0 || got.AggregateSample == nil || got.Sum != refused {
		t.Errorf("%.0f are refused, counted are %+v", refused, got)
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
			t.Fatal("no byte is timed")
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
		t.Errorf("it takes %s, and then %s", first, second)
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
		t.Error(err)
	}
}
