package endpoints_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/internal/level"
	"berth/rpc"
	"berth/structs"
)

// The bounds of the time after which a rejected write may be retried.
const (
	soonest = 50 * time.Millisecond
	latest  = 5 * time.Second
)

// pacedRaft applies one entry after another, each in the same time, and never fails.
type pacedRaft struct {
	*endpointstest.FakeRaft
	slot chan struct{} // held while an entry is applied
	each time.Duration

	mu       sync.Mutex
	inFlight int
	peak     int
}

func (r *pacedRaft) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	r.count(1)
	defer r.count(-1)
	r.slot <- struct{}{}
	defer func() { <-r.slot }()
	time.Sleep(r.each)
	return r.FakeRaft.Propose(ctx, entry)
}

func (r *pacedRaft) count(by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight += by
	r.peak = max(r.peak, r.inFlight)
}

// loaded is a server whose Raft applies 1,000 entries a second, in virtual time.
type loaded struct {
	*endpointstest.Server
	paced *pacedRaft

	mu       sync.Mutex
	took     []time.Duration // of the writes that were made
	rejected int
}

func newLoaded(t *testing.T, writes, queue int) *loaded {
	l := &loaded{Server: endpointstest.New(t)}
	l.AddNode("n1", "a")
	l.paced = &pacedRaft{
		FakeRaft: l.Raft,
		slot:     make(chan struct{}, 1),
		each:     time.Millisecond,
	}
	c := core.DefaultSettings()
	c.Writes = writes
	c.WriteQueue = queue
	d := core.Deps{
		Store:  l.Store,
		Raft:   l.paced,
		Leases: l.Leases,
		Logger: hclog.NewNullLogger(),
		Level:  func() int { return level.Now },
	}
	l.Endpoints = endpoints.NewWith(d, c)
	l.RPC = rpc.NewServer(hclog.NewNullLogger(), l.List()...)
	t.Cleanup(l.RPC.Close)
	return l
}

func (l *loaded) write(t *testing.T) error {
	start := time.Now()
	_, err := rpc.Call(t.Context(), l.RPC, structs.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:      "n1",
		Eligibility: structs.NodeEligible,
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.took = append(l.took, time.Since(start))
	case structs.IsKind(err, structs.KindUnavailable) && structs.RetryAfter(err) >= soonest &&
		structs.RetryAfter(err) <= latest:
		l.rejected++
	default:
		t.Errorf("got %v (%s), retry after %s", err, structs.KindOf(err), structs.RetryAfter(err))
	}
	return err
}

// offer sends a number of writes a second, with any outcome. It returns the number of successful writes a
// second and the 99th percentile of their times.
func (l *loaded) offer(t *testing.T, rate int, during time.Duration) (goodput float64, p99 time.Duration) {
	l.took = nil
	l.rejected = 0
	begin := time.Now()
	var wg sync.WaitGroup
	for time.Since(begin) < during {
		wg.Go(func() { _ = l.write(t) })
		time.Sleep(time.Second / time.Duration(rate))
	}
	wg.Wait()
	slices.Sort(l.took)
	return float64(len(l.took)) / time.Since(begin).Seconds(), l.took[len(l.took)*99/100]
}

func TestOverload_TwiceTheLoadIsSustained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoaded(t, 64, 64)
		single, calm := l.offer(t, 950, 5*time.Second)
		if l.rejected > 0 {
			t.Errorf("%d writes were rejected at a sustainable rate, want 0", l.rejected)
		}
		twice, p99 := l.offer(t, 2000, 5*time.Second)
		tenfold, p99Tenfold := l.offer(t, 10_000, 5*time.Second)
		if twice < single || tenfold < single {
			t.Errorf("writes a second: %.0f, at twice the load %.0f, at ten times %.0f", single, twice, tenfold)
		}
		// An admitted write waits at most for the writes in flight and those before it in the queue.
		if bound := time.Duration(64+64+2) * time.Millisecond; p99 > bound || p99Tenfold > bound {
			t.Errorf("p99 %s, at twice the load %s, at ten times %s; want at most %s", calm, p99,
				p99Tenfold, bound)
		}
		if l.paced.peak > 64 {
			t.Errorf("%d entries were in flight at the same time, want at most 64", l.paced.peak)
		}
		t.Logf("writes/s %.0f, %.0f, %.0f; p99 %s, %s, %s; rejected %d", single, twice, tenfold, calm, p99,
			p99Tenfold, l.rejected)
	})
}

// TestOverload_RetriesAtTheGivenTimeSucceed: many more writers than permits obey their retry times. All are
// served at the sustained rate, with few failed attempts.
func TestOverload_RetriesAtTheGivenTimeSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoaded(t, 64, 64)
		const writers, each = 500, 10
		begin := time.Now()
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for n := 0; n < each; {
					err := l.write(t)
					if err == nil {
						n++
						continue
					}
					time.Sleep(structs.RetryAfter(err) + rand.N(structs.RetryAfter(err)))
				}
			})
		}
		wg.Wait()
		if rate := writers * each / time.Since(begin).Seconds(); rate < 900 {
			t.Errorf("got %.0f writes a second, want at least 900 of 1000", rate)
		}
		if l.rejected > 4*writers*each {
			t.Errorf("%d failed attempts for %d writes", l.rejected, writers*each)
		}
		t.Logf("%d rejected", l.rejected)
	})
}

func TestOverload_WaitInTheQueueEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoaded(t, 1, 10)
		l.paced.each = time.Hour
		var first sync.WaitGroup
		defer first.Wait()
		first.Go(func() { _ = l.write(t) })
		synctest.Wait()
		start := time.Now()
		if err := l.write(t); structs.RetryAfter(err) == 0 || time.Since(start) != core.WritePatience {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := l.Endpoints.Raft.Propose(ctx, nil); !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}
