package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"berth/client/csi/csihooks"
	"berth/structs"
)

// reportLimit bounds the time until a report of the node arrives: a heartbeat, a registration and a report.
const reportLimit = 20 * time.Second

// The servers go back to a state in which allocations run that have ended since.
func TestRestore_ANodeReportsItsAllocations(t *testing.T) {
	for name, deaf := range map[string]bool{"it hears of the older state at once": false,
		"it waits for news after a later index": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				r.edit = func(c *Config) { c.GCMaxAllocs = 1 }
				r.start(false)
				defer r.stop()
				r.servers.place(testAlloc("a1"),
					testAlloc("a2"), testAlloc("a3"), testAlloc("runs"))
				r.pass(time.Second)
				saved := r.servers.save()
				for _, id := range []string{"a1", "a2", "a3"} {
					r.servers.stopAlloc(id)
					r.pass(time.Minute)
				}
				r.servers.place(testAlloc("new"))
				r.pass(time.Minute)
				if n := len(r.client.Allocs()); n != 3 {
					t.Fatalf("%d allocations are kept, want the ended ones collected", n)
				}
				r.servers.do(func() { r.servers.deaf = deaf })
				r.servers.restore(saved)
				r.pass(reportLimit)
				for _, id := range []string{"a1", "a2", "a3"} {
					if got := r.servers.status(id); got != structs.AllocComplete {
						t.Errorf("%s has ended and is shown %s", id, got)
					}
				}
				if got := r.machine.Running(); !slices.Equal(got, []string{"runs/web"}) ||
					r.servers.status("runs") != structs.AllocRunning {
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
func TestRestore_ANodeReportsCollectedAllocations(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.GCMaxAllocs = 0 }
		r.start(false)
		defer r.stop()
		r.servers.place(testAlloc("a1"))
		r.pass(time.Second)
		saved := r.servers.save()
		for range 2 {
			r.machine.Exit("a1/web", failed)
			r.pass(time.Minute)
		}
		n := len(r.client.Allocs())
		if n != 0 || r.servers.status("a1") != structs.AllocFailed {
			t.Fatalf("%d allocations are kept, a1 is %s", n, r.servers.status("a1"))
		}
		r.servers.restore(saved)
		r.pass(reportLimit)
		if got := r.servers.status("a1"); got != structs.AllocFailed {
			t.Errorf("it has failed and is shown %s", got)
		}
	})
}

// The allocation was changed after the snapshot: then the servers know an older version of it.
func TestRestore_ANodeRunsTheOlderVersion(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.place(testAlloc("a1"))
		r.pass(time.Second)
		saved := r.servers.save()
		newer := testAlloc("a1")
		newer.JobVersion = 7
		r.servers.place(newer)
		r.pass(time.Second)
		if v := r.client.work.allocs.get("a1").Alloc().JobVersion; v != 7 {
			t.Fatalf("version %d", v)
		}
		r.servers.restore(saved)
		r.pass(reportLimit)
		if v := r.client.work.allocs.get("a1").Alloc().JobVersion; v != 0 {
			t.Errorf("version %d, which the servers do not know", v)
		}
	})
}

// The servers know the plugins as of the snapshot.
func TestRestore_ANodeRegistersItsPluginsAgain(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Minute)
		saved := r.servers.save()
		r.parts.plugins.set(instance("ebs", structs.CSIKindNode, true))
		r.pass(time.Minute)
		r.servers.restore(saved)
		r.pass(reportLimit)
		r.servers.mu.Lock()
		defer r.servers.mu.Unlock()
		if len(r.servers.csi) != 1 {
			t.Errorf("%d plugin instances are known", len(r.servers.csi))
		}
	})
}

// A report counts once nothing can be staged any more because of an answer from the previous state.
func TestRestore_ANodeReportsAfterEarlierAnswersExpire(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		startHolding(r, "a1")
		defer r.stop()
		restored := time.Now()
		r.servers.do(func() { r.servers.rotates = true }) // the node registers again at once
		r.servers.restore(r.servers.save())
		r.pass(reportLimit)
		var unaccounted, reported time.Time
		for _, c := range r.servers.called(structs.NodeHeartbeat.Name) {
			switch said := c.req.(*structs.NodeHeartbeatRequest).Inventory != nil; {
			case c.at.Before(restored):
			case unaccounted.IsZero():
				unaccounted = c.at
			case said && reported.IsZero():
				reported = c.at
			}
		}
		if age := reported.Sub(unaccounted); age < csihooks.ConfirmAfter {
			t.Errorf("the report comes %s after the servers first asked for it", age)
		}
	})
}

// The node was unreachable for longer than its lease: the servers may have been restored meanwhile without
// requesting a report.
func TestRestore_AnUnreachableNodeReportsAll(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.place(testAlloc("a1"))
		r.pass(time.Second)
		saved := r.servers.save()
		r.servers.stopAlloc("a1")
		r.parts.plugins.set(instance("ebs", structs.CSIKindNode, true))
		r.pass(time.Minute)
		r.servers.do(func() {
			r.servers.fail = func(string, string) error {
				return structs.NotServedf("no route")
			}
		})
		r.pass(time.Minute)
		r.servers.restore(saved)
		r.servers.do(func() { r.servers.fail, r.servers.unaccounted = nil, false })
		r.pass(time.Minute)
		got := r.servers.status("a1")
		if got != structs.AllocComplete || len(r.servers.csi) != 1 {
			t.Errorf("a1 is shown %s, %d plugin instances are known", got, len(r.servers.csi))
		}
	})
}

// A node that the servers wait for sends its next heartbeat soon. Its lease, and with it the time limit of an
// answer, has the usual length, because its report may take longer than a short lease.
func TestUnaccountedNode_KeepsItsLeaseAndBeatsSoon(t *testing.T) {
	n := &node{}
	k := newClaims(n)
	reg := newRegistration(n, newWork(n, k), newPlugins(n), k)
	reg.noteUnaccounted(true)
	if next := reg.untilNextBeat(time.Minute); next != unaccountedTTL {
		t.Errorf("the next heartbeat is sent as for a lease of %s", next)
	}
	reg.noteUnaccounted(false)
	if next := reg.untilNextBeat(time.Minute); next != time.Minute {
		t.Errorf("accounted node: got a heartbeat lease of %s, want a minute", next)
	}
	reg.comeback.Note(5, true) // the servers wait for its return, too
	if next := reg.untilNextBeat(time.Minute); next != unaccountedTTL {
		t.Errorf("the next heartbeat of a node that is back is sent as for a lease of %s", next)
	}
}

// The servers may go back to an older state just when a pull has its answer.
func TestRestore_TheSignalToPullAnewIsNeverLost(t *testing.T) {
	r := newFixture(t)
	r.prepare(false)
	defer r.client.close()
	answer := errors.New("no state")
	r.servers.fail = func(string, string) error {
		notify(r.client.work.pullAnew)
		return answer
	}
	for n := range 20_000 {
		_, err := r.client.work.awaitWanted(t.Context(), 1)
		if !errors.Is(err, errStateRestored) && len(r.client.work.pullAnew) == 0 {
			t.Fatalf("pull %d has lost the signal: it returns %v", n, err)
		}
		for len(r.client.work.pullAnew) > 0 {
			<-r.client.work.pullAnew
		}
	}
}
