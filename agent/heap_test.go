package agent

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestSetGOGC_RaisesItForServers(t *testing.T) {
	for _, tc := range []struct {
		name, gogc, limit string
		server            bool
		want              int
		reserve           int
	}{
		{"a server", "", "", true, serverGOGC, reserveSize},
		{"a node", "", "", false, 77, 0},
		{"GOGC is given", "50", "", true, 77, 0},
		{"GOMEMLIMIT is given", "", "1GiB", true, 77, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("GOGC", tc.gogc)
			t.Setenv("GOMEMLIMIT", tc.limit)
			before := debug.SetGCPercent(77)
			defer reserve.Store(nil)
			setGOGC(tc.server)
			goal := heapGoal()
			if got := debug.SetGCPercent(before); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
			size := 0
			if r := reserve.Load(); r != nil {
				size = len(r)
			}
			if size != tc.reserve {
				t.Errorf("the reserve has %d bytes, want %d", size, tc.reserve)
			}
			if least := uint64(3 * tc.reserve); goal < least {
				t.Errorf("the heap is collected at %d bytes, want at least %d", goal, least)
			}
		})
	}
}

// heapGoal returns the size of the heap at which the next collection ends.
func heapGoal() uint64 {
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	return goal[0].Value.Uint64()
}
