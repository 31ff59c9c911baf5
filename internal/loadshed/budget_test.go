package loadshed

import (
	"sync"
	"testing"
)

func TestBudget_TakesAllOrNothing(t *testing.T) {
	b := NewBudget(10)
	if !b.Take(4) || !b.Take(6) || b.Take(1) || b.used.Load() != 10 {
		t.Fatalf("%d bytes are taken, want 10", b.used.Load())
	}
	b.Give(4)
	if b.Take(5) || b.used.Load() != 6 || !b.Take(4) {
		t.Errorf("%d bytes are taken, want 10 after 4 were given back", b.used.Load())
	}
}

func TestBudget_IsSafeForConcurrentUse(t *testing.T) {
	b := NewBudget(100)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if b.Take(60) {
					b.Give(60)
				}
			}
		})
	}
	all.Wait()
	if b.used.Load() != 0 {
		t.Errorf("%d bytes are taken at the end, want 0", b.used.Load())
	}
}
