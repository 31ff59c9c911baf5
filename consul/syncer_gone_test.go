package consul

import (
	"fmt"
	"testing"
	"time"
)

// While Consul is away, the services of ended allocations do not fill the memory. All of them go when Consul
// is back.
func TestSyncer_KeepsABoundedNumberOfRemovals(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		const ended = maxGone + 500
		s.Put("alloc", []*Service{service("web")})
		for n := range ended {
			s.Put(fmt.Sprint("a", n), []*Service{service(fmt.Sprint("web", n))})
		}
		pass(probation + time.Second)
		if n := len(f.ids()); n != ended+1 {
			t.Fatalf("Consul has %d services, want %d", n, ended+1)
		}
		f.change(func() { f.fault = errAway })
		for n := range ended {
			s.Put(fmt.Sprint("a", n), nil)
		}
		pass(time.Minute)
		s.mu.Lock()
		kept := len(s.gone)
		s.mu.Unlock()
		if kept != maxGone {
			t.Errorf("the syncer keeps %d removals, want %d", kept, maxGone)
		}
		f.change(func() { f.fault = nil })
		pass(2 * longestRetry)
		if n := len(f.ids()); n != 1 {
			t.Errorf("Consul has %d services, want 1", n)
		}
	})
}
