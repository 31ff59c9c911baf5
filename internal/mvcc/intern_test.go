package mvcc

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"weak"
)

// TestInterner_IsBounded and lets go of the values that it replaces.
func TestInterner_IsBounded(t *testing.T) {
	in := NewInterner(false)
	in.Text("the first")
	var first weak.Pointer[string]
	for places, i := *in.texts.places.Load(), 0; i < len(places); i++ {
		if v := places[i].Load(); v != nil {
			first = weak.Make(v)
		}
	}
	for i := range 20 * writerTexts {
		in.Text(fmt.Sprint("text ", i))
	}
	held := 0
	places := *in.texts.places.Load()
	for i := range places {
		if places[i].Load() != nil {
			held++
		}
	}
	if len(places) != writerTexts || held < writerTexts/2 {
		t.Errorf("%d places, %d of them taken", len(places), held)
	}
	runtime.GC()
	if first.Value() != nil {
		t.Error("a replaced value is still held")
	}
}

// TestInterner_IsSafeForConcurrentUse while it grows.
func TestInterner_IsSafeForConcurrentUse(t *testing.T) {
	in := NewInterner(true)
	part := NewPart(HashValue[int], func(a, b *int) bool { return *a == *b }, func(v *int) int { return *v })
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 20000 {
				want := fmt.Sprint("text ", i%7000)
				if got := in.Text(want); got != want {
					t.Errorf("%q became %q", want, got)
					return
				}
				m := map[string]string{"zone": fmt.Sprint(i % 100)}
				if got := in.Map(m); got["zone"] != m["zone"] {
					t.Errorf("%v became %v", m, got)
					return
				}
				if v := i % 300; *part.Of(&v) != v {
					t.Errorf("%d became another value", v)
					return
				}
			}
		})
	}
	wg.Wait()
}
