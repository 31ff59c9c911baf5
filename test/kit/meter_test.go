package kit

import (
	"flag"
	"testing"
)

// TestMeter_RunsEveryRequest: the benchmark makes and runs every request once, in order, and at most a block
// at a time. No number includes the making of requests.
func TestMeter_RunsEveryRequest(t *testing.T) {
	if err := flag.Set("test.benchtime", "1000x"); err != nil {
		t.Fatal(err)
	}
	const block, size = 64, 4096
	made, done := 0, 0
	var kept []byte
	r := testing.Benchmark(func(b *testing.B) {
		made = 0
		done = 0
		MeasurePrepared(b, 2, block, func(i int) int {
			kept = make([]byte, 10*size)
			made++
			return i
		}, func(i int) {
			if i != done || made-done > block {
				t.Errorf("request %d is number %d of %d that are made", i, done, made)
			}
			done++
			kept = make([]byte, size)
		})
	})
	if done != 1000 || r.N != 1000 {
		t.Errorf("%d requests are done, the benchmark says %d; want 1000", done, r.N)
	}
	if n := r.Extra["B/unit"]; n < size/4 || n > size {
		t.Errorf("got %.0f bytes a unit, want about %d", n, size/2)
	}
	if n := r.Extra["allocs/unit"]; n > 2 {
		t.Errorf("got %.1f allocations a unit, want 0.5", n)
	}
	if len(kept) != size {
		t.Error("the last request is not done last")
	}
}

// TestMeter_WaitsForTheCollector: a benchmark with a time continues until the collector has completed whole
// cycles.
func TestMeter_WaitsForTheCollector(t *testing.T) {
	if err := flag.Set("test.benchtime", "1ms"); err != nil {
		t.Fatal(err)
	}
	held := make([][]byte, 8192)
	at := 0
	r := testing.Benchmark(func(b *testing.B) {
		m := BeginMeter(b)
		for m.Loop() {
			held[at%len(held)] = make([]byte, 4096)
			at++
			m.Round()
		}
		m.End(1)
	})
	if n := r.Extra["collections"]; n < wantedCycles {
		t.Errorf("got %.0f collections, want %d", n, wantedCycles)
	}
}
