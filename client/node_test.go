package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/structs"
)

// A cut makes the pauses of all loops long. Its end is the first heartbeat that reaches a server. Each loop
// has just made an attempt when the cut ends, so its pause would be much longer than the heartbeats'.
func TestLoops_TryAgainWithTheFirstHeartbeatAfterACut(t *testing.T) {
	for method, work := range map[string]func(r *fixture){
		"Node.GetClientAllocs": func(r *fixture) {
			// It ends the pull in flight, and the fetch of the allocation fails.
			r.servers.place(testAlloc("new"))
		},
		"Node.UpdateAlloc": func(r *fixture) { r.machine.Exit("a/web", driver.ExitResult{}) },
		"Node.UpdateCSI": func(r *fixture) {
			r.parts.plugins.set(instance("p", structs.CSIKindNode, true))
		},
		"Node.Register":        func(r *fixture) { r.flip(broken) },
		"CSIVolume.ListClaims": func(r *fixture) { notify(r.client.claims.due) },
	} {
		t.Run(method, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				r.servers.ttl = 10 * time.Minute // an end of the lease would cause calls of its own
				startHolding(r, "a")
				defer r.stop()
				r.pass(time.Minute)
				calls := func(method string) int { return len(r.servers.called(method)) }
				await := func(method string, more int) {
					t.Helper()
					begin := time.Now()
					for before := calls(method); calls(method) < before+more; r.pass(10 * time.Millisecond) {
						if time.Since(begin) > 9*time.Minute {
							t.Fatalf("%s is not called %d times", method, more)
						}
					}
				}
				r.servers.do(func() {
					r.servers.fail = func(addr, _ string) error {
						return structs.NotServedf("%s: connection refused", addr)
					}
				})
				work(r)
				await("Node.UpdateStatus", 10)
				await(method, 1)
				r.servers.do(func() { r.servers.fail = nil })
				attempts := calls(method)
				await("Node.UpdateStatus", 1)
				if calls(method) == attempts {
					t.Error("the loop makes no attempt with the heartbeat")
				}
			})
		})
	}
}

// A call that hangs in the cut, on a connection that no heartbeat uses any more, ends with the cut, too.
func TestLoops_EndAnAttemptThatHangsWithTheFirstHeartbeat(t *testing.T) {
	for method, work := range map[string]func(r *fixture){
		"Node.GetClientAllocs": func(r *fixture) { r.servers.place(testAlloc("new")) },
		"Node.UpdateAlloc":     func(r *fixture) { r.machine.Exit("a/web", driver.ExitResult{}) },
	} {
		t.Run(method, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				startHolding(r, "a")
				defer r.stop()
				r.pass(time.Minute)
				calls := func() int { return len(r.servers.called(method)) }
				r.servers.do(func() { r.servers.hang = func(_, called string) bool { return called == method } })
				before := calls()
				work(r)
				for calls() == before {
					r.pass(10 * time.Millisecond)
				}
				hanging := calls()
				r.servers.do(func() {
					r.servers.hang = nil
					r.servers.fail = func(_, called string) error {
						if called == structs.NodeHeartbeat.Name {
							return structs.NotServedf("connection refused")
						}
						return nil
					}
				})
				r.pass(6 * time.Second) // a heartbeat fails
				if calls() != hanging {
					t.Fatalf("the call does not hang: %d more", calls()-hanging)
				}
				r.servers.do(func() { r.servers.fail = nil })
				r.pass(leaseRetry.Max)
				if calls() == hanging {
					t.Error("the loop makes no attempt with the heartbeat")
				}
			})
		})
	}
}

// The subsystems end their pauses together with the loops.
func TestParts_HaveTheEndOfACut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		if back := r.client.parts(t.Context()).ServersBack; back != &r.client.serversBack {
			t.Errorf("the subsystems have %p, not the recovery of the client", back)
		}
	})
}

// Overloaded servers say when to try again. The end of a cut does not make that time shorter.
func TestRetry_ObeysTheServersAlsoAfterACut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		n := &node{logger: hclog.NewNullLogger()}
		begin := time.Now()
		tries := 0
		go func() {
			synctest.Wait()
			n.serversBack.Announce()
		}()
		n.retry(t.Context(), "failed", func(context.Context) error {
			tries++
			if tries == 1 {
				return structs.Busy(5*time.Second, "busy")
			}
			return nil
		})
		if took := time.Since(begin); tries != 2 || took < 5*time.Second {
			t.Errorf("%d tries in %s, want 2 in at least 5s", tries, took)
		}
	})
}

// The end of a cut may come during an attempt. The pause after it and the next pause are short.
func TestRetry_BeginsAgainAfterACut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		n := &node{logger: hclog.NewNullLogger()}
		var at []time.Time
		const end = 10
		n.retry(t.Context(), "failed", func(context.Context) error {
			at = append(at, time.Now())
			switch len(at) {
			case end:
				n.serversBack.Announce()
			case end + 2:
				return nil
			}
			return structs.Unavailablef("connection refused")
		})
		before := at[end-1].Sub(at[end-2])
		first := at[end].Sub(at[end-1])
		second := at[end+1].Sub(at[end])
		if before < serverRetry.Max/4 || first > 0 || second > serverRetry.Min {
			t.Errorf("the pause is %s before the end of the cut, then %s and %s", before, first, second)
		}
	})
}
