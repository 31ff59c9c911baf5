package endpoints_test

import (
	"sync"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/internal/agenttest"
	"berth/internal/loadshed"
	"berth/rpc"
	"berth/structs"
)

// gateRejecting returns a gate that rejects a share of the reads.
func gateRejecting(share float64) *loadshed.Gate {
	const seen = 1 << 20
	g := loadshed.NewGate(0)
	if share > 0 {
		admitted := max(1, int((1-share)*seen))
		for range 2 { // the second time there is a limit
			g.Observe(loadshed.Sample{
				Took:     time.Second,
				Seen:     admitted,
				Admitted: admitted,
				Delay:    time.Minute,
			})
		}
		g.Observe(loadshed.Sample{
			Took:     time.Second,
			Seen:     seen,
			Admitted: admitted,
		})
		_ = g.Admit() // the gate admits the first read
	}
	return g
}

// pair is a leader and a server that forwards to it over a connection, each with its gate.
type pair struct {
	leader, follower *endpointstest.Server
	pool             *rpc.Pool // the follower's
	addr             string    // the leader's

	mu      sync.Mutex
	answers []error // of the leader to the follower
}

func newPair(t *testing.T, leads, follows *loadshed.Gate) *pair {
	p := &pair{leader: endpointstest.New(t), follower: endpointstest.New(t, endpointstest.QuickSettings())}
	p.leader.AddNode("n1", "a")
	p.leader.AddVolume("v1")
	p.follower.AddNode("n1", "a")
	p.follower.AddVolume("v1")
	p.leader.RPC.Shed(leads)
	p.follower.RPC.Shed(follows)
	p.addr = endpointstest.Listen(t, p.leader.RPC)
	p.pool = endpointstest.NewPool(t)
	p.follower.Raft.IsMe = false
	p.follower.Raft.LeaderAddr = p.addr
	p.follower.Raft.OnForward = func(method string, req, resp any) error {
		err := p.pool.Call(t.Context(), p.addr, method, req, resp)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answers = append(p.answers, err)
		return err
	}
	return p
}

// TestOverload_OnlyTheLeaderRejectsForwardedReads: the caller receives the rejection of the leader. The
// server in between does not retry and does not count the leader as gone.
func TestOverload_OnlyTheLeaderRejectsForwardedReads(t *testing.T) {
	p := newPair(t, gateRejecting(1), gateRejecting(0))
	client, follower := endpointstest.NewPool(t), endpointstest.Listen(t, p.follower.RPC)
	before, err := p.pool.Session(t.Context(), p.addr)
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range []rpc.Caller{client.At(follower), p.follower.RPC} {
		_, err = rpc.Call(t.Context(), c, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v1"})
		if len(p.answers) != n+1 {
			t.Fatalf("the leader was called %d times for %d reads", len(p.answers), n+1)
		}
		answer := p.answers[n]
		after := structs.RetryAfter(err)
		if !structs.IsKind(err, structs.KindUnavailable) ||
			after < 200*time.Millisecond ||
			after != structs.RetryAfter(answer) || err.Error() != answer.Error() {
			t.Errorf("got %v (%s), retry after %s; the leader answered %v, retry after %s",
				err, structs.KindOf(err), after, answer, structs.RetryAfter(answer))
		}
	}
	if s, err := p.pool.Session(t.Context(), p.addr); err != nil || s != before {
		t.Errorf("the connection to the leader was replaced: %v", err)
	}
	stale := structs.QueryOptions{AllowStale: true}
	if got, err := rpc.Call(t.Context(), client.At(follower), structs.CSIVolumeGet,
		&structs.CSIVolumeGetRequest{ID: "v1", QueryOptions: stale}); err != nil || got.Volume.ID != "v1" {
		t.Errorf("a stale read: %v, %v", got, err)
	}
	if len(p.answers) != 2 {
		t.Error("a stale read was forwarded")
	}
	if _, err := rpc.Call(t.Context(), client.At(follower), structs.CSIClaimList,
		&structs.CSIClaimListRequest{}); err != nil {
		t.Errorf("a read that is never rejected, over the same connection: %v", err)
	}
}

// TestOverload_OneGateRejectsARead: an overloaded server rejects the reads that it answers itself.
func TestOverload_OneGateRejectsARead(t *testing.T) {
	p := newPair(t, gateRejecting(0), gateRejecting(1))
	client, follower := endpointstest.NewPool(t), endpointstest.Listen(t, p.follower.RPC)
	for _, c := range []rpc.Caller{client.At(follower), p.follower.RPC} {
		_, err := rpc.Call(t.Context(), c, structs.CSIVolumeGet,
			&structs.CSIVolumeGetRequest{ID: "v1"})
		if err != nil {
			t.Errorf("a forwarded read: %v", err)
		}
		stale := &structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{AllowStale: true}}
		if _, err := rpc.Call(t.Context(), c, structs.CSIVolumeList, stale); structs.RetryAfter(err) == 0 {
			t.Errorf("a stale read: %v", err)
		}
	}
	p.follower.Raft.LeaderAddr = "" // it has no leader to forward to, so only its own gate decides
	if _, err := rpc.Call(t.Context(), client.At(follower), structs.CSIVolumeGet,
		&structs.CSIVolumeGetRequest{ID: "v1"}); structs.RetryAfter(err) == 0 {
		t.Errorf("without a leader: %v", err)
	}
}

// TestOverload_TheLeaderIsFair: it rejects the same share of direct and of forwarded reads.
func TestOverload_TheLeaderIsFair(t *testing.T) {
	const reads = 200
	p := newPair(t, gateRejecting(.5), gateRejecting(.5))
	leader := endpointstest.NewPool(t).At(p.addr)
	follower := endpointstest.NewPool(t).At(endpointstest.Listen(t, p.follower.RPC))
	for name, c := range map[string]rpc.Caller{"the leader": leader, "another server": follower} {
		rejected := 0
		for range reads {
			_, err := rpc.Call(t.Context(), c, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v1"})
			if structs.RetryAfter(err) > 0 {
				rejected++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if rejected < reads*4/10 || rejected > reads*6/10 {
			t.Errorf("%d of %d reads at %s were rejected, want half", rejected, reads, name)
		}
	}
}

// TestOverload_RejectsWritesUndecoded: a write that mostly changes nothing is admitted.
func TestOverload_RejectsWritesUndecoded(t *testing.T) {
	l := newLoaded(t, 1, 0)
	l.paced.slot <- struct{}{} // the admitted write is held
	var held sync.WaitGroup
	defer held.Wait()
	defer func() { <-l.paced.slot }()
	held.Go(func() { _ = l.write(t) })
	for deadline := time.Now().Add(time.Minute); l.Writes.Full(0) == nil && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	served := 0
	for _, e := range l.List() {
		if e.Admit != nil {
			if after := structs.RetryAfter(e.Admit(0)); after < soonest || after > latest {
				t.Errorf("%s: retry after %s, want %s to %s", e.Name, after, soonest, latest)
			}
			served++
		}
	}
	if served < 10 {
		t.Errorf("%d writes have a bound, want at least 10", served)
	}
	node := &structs.NodeEligibilityRequest{} // invalid, but not decoded
	if _, err := rpc.Call(t.Context(), l.RPC, structs.NodeEligibility, node); structs.RetryAfter(err) == 0 {
		t.Errorf("a write under overload: %v, want a retry time", err)
	}
	beat := &structs.NodeHeartbeatRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Status:   structs.NodeReady,
	}
	if _, err := rpc.Call(t.Context(), l.RPC, structs.NodeHeartbeat, agenttest.Request(beat)); err != nil {
		t.Errorf("a heartbeat: %v", err)
	}
}
