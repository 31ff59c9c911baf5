package coalesce

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder records batches. Each takes a while.
type recorder struct {
	mu      sync.Mutex
	entries [][]int
	takes   time.Duration
	err     error
}

func (b *recorder) propose(_ context.Context, _ string, all []int) (uint64, error) {
	time.Sleep(b.takes)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	b.entries = append(b.entries, all)
	return uint64(len(b.entries)), nil
}

func TestBatcher_JoinsTheNextBatchWhileOneIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &recorder{takes: time.Second}
		g := &Batcher[string, int]{Most: 40, Propose: b.propose}
		var wg sync.WaitGroup
		for n := range 101 {
			wg.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond)
				index, err := g.Do(t.Context(), "k", n)
				b.mu.Lock()
				defer b.mu.Unlock()
				if err != nil || !slices.Contains(b.entries[index-1], n) {
					t.Errorf("request %d: got entry %d, %v; want an entry that has it", n, index, err)
				}
			})
		}
		wg.Wait()
		var sizes []int
		for _, e := range b.entries {
			sizes = append(sizes, len(e))
		}
		slices.Sort(sizes)
		if want := []int{1, 20, 40, 40}; !slices.Equal(sizes, want) {
			t.Errorf("got batches of %v, want %v", sizes, want)
		}
		if len(g.open)+len(g.inFlight) != 0 {
			t.Errorf("%d batches are open and %d in flight at the end", len(g.open), len(g.inFlight))
		}
	})
}

// TestBatcher_LetsRunnableRequestsJoin makes requests on one processor while no batch is in flight.
func TestBatcher_LetsRunnableRequestsJoin(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b := &recorder{}
	g := &Batcher[string, int]{Propose: b.propose}
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() { _, _ = g.Do(t.Context(), "k", n) })
	}
	wg.Wait()
	if len(b.entries) > 20 {
		t.Errorf("40 requests made %d batches; want at most 20", len(b.entries))
	}
}

func TestBatcher_SeparatesKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &recorder{takes: time.Second}
		g := &Batcher[string, int]{Most: 10, Propose: b.propose}
		var wg sync.WaitGroup
		begin := time.Now()
		for n := range 10 {
			wg.Go(func() { _, _ = g.Do(t.Context(), []string{"a", "b"}[n%2], n) })
			synctest.Wait() // the first of a key proposes alone
		}
		wg.Wait()
		var sizes []int
		for _, e := range b.entries {
			sizes = append(sizes, len(e))
		}
		if !slices.Equal(sizes, []int{1, 1, 4, 4}) || time.Since(begin) != 2*time.Second {
			t.Errorf("got batches %v after %s, want sizes 1, 1, 4, 4 after 2s", b.entries, time.Since(begin))
		}
	})
}

func TestBatcher_FailsAllOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &recorder{takes: time.Second, err: errors.New("no leader")}
		g := &Batcher[string, int]{Most: 10, Propose: b.propose}
		var wg sync.WaitGroup
		for n := range 5 {
			wg.Go(func() {
				if _, err := g.Do(t.Context(), "k", n); !errors.Is(err, b.err) {
					t.Errorf("request %d: got %v, want %v", n, err, b.err)
				}
			})
		}
		wg.Wait()
		b.err = nil
		if index, err := g.Do(t.Context(), "k", 9); err != nil || index != 1 {
			t.Errorf("a later request got entry %d, %v; want 1", index, err)
		}
	})
}

// TestBatcher_ProposesForTheOthersWhenTheFirstEnds: the first request proposes the batch at once.
func TestBatcher_ProposesForTheOthersWhenTheFirstEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &recorder{takes: time.Second}
		g := &Batcher[string, int]{Most: 10, Propose: b.propose}
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = g.Do(t.Context(), "k", 0) })
		synctest.Wait()
		wg.Go(func() { _, _ = g.Do(first, "k", 1) })
		synctest.Wait()
		wg.Go(func() {
			if _, err := g.Do(second, "k", 2); !structs.IsKind(err, structs.KindUnavailable) {
				t.Errorf("a request that left the batch got %v, want unavailable", err)
			}
		})
		wg.Go(func() {
			if _, err := g.Do(t.Context(), "k", 3); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		endSecond()
		synctest.Wait()
		endFirst()
		begin := time.Now()
		wg.Wait()
		others := func(e []int) bool { return slices.Equal(e, []int{1, 3}) }
		if len(b.entries) != 2 || !slices.ContainsFunc(b.entries, others) || time.Since(begin) != time.Second {
			t.Errorf("got batches %v after %s, want 1 and 3 together after 1s", b.entries, time.Since(begin))
		}
	})
}

// TestBatcher_AnswersTimeoutForABatchInFlight: the request may be recorded, and is.
func TestBatcher_AnswersTimeoutForABatchInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &recorder{takes: time.Hour}
		g := &Batcher[string, int]{Most: 10, Propose: b.propose}
		ctx, leave := context.WithTimeout(t.Context(), 90*time.Minute)
		defer leave()
		var wg sync.WaitGroup
		for n := range 2 {
			wg.Go(func() { _, _ = g.Do(t.Context(), "k", n) })
			synctest.Wait()
		}
		if _, err := g.Do(ctx, "k", 2); !structs.IsKind(err, structs.KindTimeout) {
			t.Errorf("a request whose context ended got %v, want timeout", err)
		}
		wg.Wait()
		if len(b.entries) != 2 || !slices.Equal(b.entries[1], []int{1, 2}) {
			t.Errorf("got batches %v, want 1 and 2 in the second", b.entries)
		}
	})
}
