package client

import (
	"slices"
	"testing"
	"time"

	"berth/client/csihooks"
	"berth/structs"
)

// what the node's servers are to hear has this long to arrive: a heartbeat, a registration and a report.
const told = 20 * time.Second

// The servers go back to a state in which allocations run that have ended since.
func TestRestore_ANodeTellsWhatBecameOfItsAllocations(t *testing.T) {
	for name, deaf := range map[string]bool{"it hears of the older state at once": false, "it waits for news after a later index": true} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T) {
				r := newRig(t)
				r.edit = func(c *Config) { c.GCMaxAllocs = 1 }
				r.start(false)
				defer r.stop()
				r.plane.place(testAlloc("a1"), testAlloc("a2"), testAlloc("a3"), testAlloc("runs"))
				r.pass(time.Second)
				saved := r.plane.save()
				for _, id := range []string{"a1", "a2", "a3"} {
					r.plane.stopAlloc(id)
					r.pass(time.Minute)
				}
				r.plane.place(testAlloc("new"))
				r.pass(time.Minute)
				if n := len(r.client.Allocs()); n != 3 {
					t.Fatalf("%d allocations are kept: some that have ended are to be collected by now", n)
				}
				r.plane.do(func() { r.plane.deaf = deaf })
				r.plane.restore(saved)
				r.pass(told)
				for _, id := range []string{"a1", "a2", "a3"} {
					if got := r.plane.status(id); got != structs.AllocComplete {
						t.Errorf("%s has ended and is shown %s", id, got)
					}
				}
				if got := r.machine.Running(); !slices.Equal(got, []string{"runs/web"}) || r.plane.status("runs") != structs.AllocRunning {
					t.Errorf("running %v", got)
				}
				if n := r.machine.Task("a1/web").Starts; n != 1 {
					t.Errorf("a1 was started %d times", n)
				}
			})
		})
	}
}

// An allocation that failed was not changed by the servers: its row has the index that the node knows.
func TestRestore_ANodeTellsOfWhatItHasCollected(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.edit = func(c *Config) { c.GCMaxAllocs = 0 }
		r.start(false)
		defer r.stop()
		r.plane.place(testAlloc("a1"))
		r.pass(time.Second)
		saved := r.plane.save()
		for range 2 {
			r.machine.Exit("a1/web", failed)
			r.pass(time.Minute)
		}
		if n := len(r.client.Allocs()); n != 0 || r.plane.status("a1") != structs.AllocFailed {
			t.Fatalf("%d allocations are kept, a1 is %s", n, r.plane.status("a1"))
		}
		r.plane.restore(saved)
		r.pass(told)
		if got := r.plane.status("a1"); got != structs.AllocFailed {
			t.Errorf("it has failed and is shown %s", got)
		}
	})
}

// The allocation was changed after the snapshot: then the servers know an older version of it.
func TestRestore_ANodeRunsTheOlderVersion(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		r.plane.place(testAlloc("a1"))
		r.pass(time.Second)
		saved := r.plane.save()
		newer := testAlloc("a1")
		newer.JobVersion = 7
		r.plane.place(newer)
		r.pass(time.Second)
		if v := r.client.runner("a1").Alloc().JobVersion; v != 7 {
			t.Fatalf("version %d", v)
		}
		r.plane.restore(saved)
		r.pass(told)
		if v := r.client.runner("a1").Alloc().JobVersion; v != 0 {
			t.Errorf("version %d, which the servers do not know", v)
		}
	})
}

// Of the plugins the servers know what there was at the time of the snapshot.
func TestRestore_ANodeRegistersItsPluginsAnew(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Minute)
		saved := r.plane.save()
		r.parts.plugins.set(instance("ebs", structs.CSIKindNode, true))
		r.pass(time.Minute)
		r.plane.restore(saved)
		r.pass(told)
		r.plane.mu.Lock()
		defer r.plane.mu.Unlock()
		if len(r.plane.csi) != 1 {
			t.Errorf("%d plugin instances are known", len(r.plane.csi))
		}
	})
}

// A report is of use once nothing is staged any more on the word of the state before.
func TestRestore_ANodeReportsWhenNoEarlierWordCounts(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		holding(r, "a1")
		defer r.stop()
		restored := time.Now()
		r.plane.do(func() { r.plane.rotates = true }) // it comes again at once
		r.plane.restore(r.plane.save())
		r.pass(told)
		var doubted, reported time.Time
		for _, c := range r.plane.called(structs.NodeHeartbeat.Name) {
			switch said := c.req.(*structs.NodeHeartbeatRequest).Inventory != nil; {
			case c.at.Before(restored):
			case doubted.IsZero():
				doubted = c.at
			case said && reported.IsZero():
				reported = c.at
			}
		}
		if age := reported.Sub(doubted); age < csihooks.ConfirmAfter {
			t.Errorf("the report comes %s after the first doubt", age)
		}
	})
}

// The node was away for longer than its lease: the servers may have gone back meanwhile, and not ask.
func TestRestore_ANodeThatWasAwayTellsAll(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		r.plane.place(testAlloc("a1"))
		r.pass(time.Second)
		saved := r.plane.save()
		r.plane.stopAlloc("a1")
		r.parts.plugins.set(instance("ebs", structs.CSIKindNode, true))
		r.pass(time.Minute)
		r.plane.do(func() {
			r.plane.fail = func(string, string) error { return structs.Errorf(structs.KindUnavailable, "no route") }
		})
		r.pass(time.Minute)
		r.plane.restore(saved)
		r.plane.do(func() { r.plane.fail, r.plane.unaccounted = nil, false })
		r.pass(time.Minute)
		if got := r.plane.status("a1"); got != structs.AllocComplete || len(r.plane.csi) != 1 {
			t.Errorf("a1 is shown %s, %d plugin instances are known", got, len(r.plane.csi))
		}
	})
}
