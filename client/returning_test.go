package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"berth/client/hooks"
	"berth/structs"
)

// cleanFor returns the epoch in which the node told with its last heartbeat that it is clean.
func (p *fakeServers) cleanFor() uint64 {
	beats := p.called(structs.NodeHeartbeat.Name)
	if len(beats) == 0 {
		return 0
	}
	return beats[len(beats)-1].req.(*structs.NodeHeartbeatRequest).CleanFor
}

// returns makes the servers wait for a node that is back in an epoch.
func (p *fakeServers) returns(epoch uint64) {
	p.do(func() {
		p.epoch = epoch
		p.returning = true
	})
}

func TestReturn_ANodeIsCleanOnceItsVolumesAreReleased(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		startHolding(r, "a1", "a2")
		defer r.stop()
		r.servers.returns(5)
		r.servers.do(func() { delete(r.servers.claims, claimOf("a1", 0).Key()) })
		r.pass(30 * time.Second)
		if !r.lost("a1") || !slices.Equal(r.machine.Running(), []string{"a2/web"}) {
			t.Errorf("%v run after the claim of a1 is gone", r.machine.Running())
		}
		if clean := r.servers.cleanFor(); clean != 0 {
			t.Errorf("the node is clean for epoch %d with the volume of a1", clean)
		}
		r.parts.mu.Lock()
		delete(r.holds, claimOf("a1", 0).Key())
		r.parts.mu.Unlock()
		r.pass(30 * time.Second)
		if clean := r.servers.cleanFor(); clean != 5 {
			t.Errorf("the node is clean for epoch %d, want 5: a2 has its claim", clean)
		}
	})
}

// gateHook has a Down that waits.
type gateHook struct{ open chan struct{} }

func (gateHook) Name() string                              { return "gate" }
func (gateHook) Up(context.Context, *hooks.AllocEnv) error { return nil }
func (h gateHook) Down(ctx context.Context) error {
	select {
	case <-h.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Also after a restart of the agent: the servers tell it again.
func TestReturn_WaitsForTheEndOfWhatTheServersStopped(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		gate := gateHook{open: make(chan struct{})}
		r.prepare(false)
		r.parts.hooks = func(*hooks.AllocEnv) []hooks.Alloc { return []hooks.Alloc{gate} }
		r.run()
		r.servers.place(testAlloc("a1"))
		r.pass(time.Second)
		r.servers.stopAlloc("a1")
		r.servers.returns(5)
		r.pass(30 * time.Second)
		r.stop()
		r.start(false)
		defer r.stop()
		r.pass(30 * time.Second)
		if clean := r.servers.cleanFor(); clean != 0 {
			t.Errorf("the node is clean for epoch %d while a1 stops", clean)
		}
		close(gate.open)
		r.pass(30 * time.Second)
		if clean := r.servers.cleanFor(); clean != 5 {
			t.Errorf("the node is clean for epoch %d, want 5", clean)
		}
	})
}

// The calls of the node carry its epoch, by which the servers reject those that come late.
func TestEpoch_IsInTheCallsOfTheNode(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.epoch = 7
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		r.servers.place(testAlloc("a1"))
		r.pass(10 * time.Second)
		for _, method := range []string{structs.AllocsGet.Name, structs.NodeUpdateAllocs.Name} {
			calls := r.servers.called(method)
			if len(calls) == 0 {
				t.Fatalf("no %s was called", method)
			}
			for _, c := range calls {
				if sent := c.req.(structs.EpochRequest).SentEpoch(); sent != 7 {
					t.Errorf("%s has epoch %d, want 7", method, sent)
				}
			}
		}
	})
}

// A call of the servers waits in a connection while the node is frozen.
func TestCheckEpoch_RejectsACallAfterALoss(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.epoch = 7
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		check := func(when string, accepted map[uint64]bool) {
			t.Helper()
			for epoch, want := range accepted {
				err := r.parts.made.CheckEpoch(epoch)
				if (err == nil) != want || err != nil && !structs.IsKind(err, structs.KindUnavailable) {
					t.Errorf("%s, a call of epoch %d: %v, want accepted: %v", when, epoch, err, want)
				}
			}
		}
		check("within the lease", map[uint64]bool{0: true, 6: false, 7: true, 8: true})
		r.servers.do(func() {
			r.servers.fail = func(string, string) error { return structs.NotServedf("no route") }
		})
		r.suspended.Store(int64(time.Hour))
		check("after the lease", map[uint64]bool{0: false, 6: false, 7: false, 8: true})
	})
}

// Each request continues the last one that the servers have accepted, also that of the next agent, and also
// if answers are lost.
func TestProof_EachRequestContinuesTheLast(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		r.pass(20 * time.Second)
		r.servers.do(func() { r.servers.lose = map[string]bool{structs.NodeHeartbeat.Name: true} })
		r.pass(8 * time.Second)
		r.stop()
		r.servers.do(func() { r.servers.lose = nil })
		r.start(false)
		defer r.stop()
		r.pass(20 * time.Second)
		var last structs.AgentProof
		drawn := map[string]bool{}
		for i, p := range r.servers.order {
			drawn[p.Nonce] = true
			if i > 0 && p.Nonce != last.Nonce && p.Previous != last.Nonce {
				t.Errorf("request %d has the proof %+v, which does not continue %+v", i, p, last)
			}
			last = p
		}
		if len(drawn) < 5 || len(drawn) == len(r.servers.order) {
			t.Errorf("%d nonces in %d requests, want one for each answer", len(drawn), len(r.servers.order))
		}
	})
}

// A rejected agent is no part of the cluster: the other one has the work of the node.
func TestSecondAgent_DoesNothingForTheNodeUntilItTakesOver(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		r.servers.do(func() {
			r.servers.fail = func(_, method string) error {
				if method == structs.NodeRegister.Name || method == structs.NodeHeartbeat.Name {
					return structs.Rejectedf(structs.CauseSecondAgent, 2*time.Second, "another agent has it")
				}
				return nil
			}
		})
		r.pass(10 * time.Second)
		r.servers.do(func() { r.servers.calls = nil })
		r.servers.place(testAlloc("a1"))
		r.pass(time.Minute)
		own := []string{structs.AllocsGet.Name, structs.NodeUpdateAllocs.Name, structs.NodeHeartbeat.Name}
		for _, m := range own {
			if n := len(r.servers.called(m)); n != 0 {
				t.Errorf("the second agent calls %s %d times", m, n)
			}
		}
		if n := len(r.servers.called(structs.NodeRegister.Name)); n < 10 {
			t.Errorf("it tries %d times within a minute to take over", n)
		}
		if r.machine.Running() != nil {
			t.Errorf("it runs %v", r.machine.Running())
		}
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(30 * time.Second)
		if !slices.Equal(r.machine.Running(), []string{"a1/web"}) {
			t.Errorf("it has taken over and runs %v, want a1", r.machine.Running())
		}
	})
}

// The mark of a claim is in the log of the servers. An agent on a copied disk, which no server has accepted,
// would keep the agent of the node out by its mark.
func TestMarkClaims_WaitsUntilTheServersHaveAcceptedTheAgent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.fail = func(_, method string) error {
			if method == structs.NodeRegister.Name {
				return structs.Busy(time.Second, "another agent may count its lease")
			}
			return nil
		}
		r.start(false)
		defer r.stop()
		marks := make(chan string, 1)
		go func() {
			err := r.client.registration.markClaims(t.Context())
			if err != nil {
				t.Error(err)
			}
			marks <- r.client.registration.proof.Current().Mark()
		}()
		r.pass(30 * time.Second)
		if len(marks) > 0 {
			t.Fatalf("an agent without a lease claims with the mark %q", <-marks)
		}
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(30 * time.Second)
		if len(marks) == 0 || <-marks == "" {
			t.Error("the agent has its lease, and no mark")
		}
	})
}
