package endpoints

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/loadshed"
	"berth/rpc"
	"berth/structs"
)

// gateThat refuses a share of the reads, or none.
func gateThat(refuses float64) *loadshed.Gate {
	const seen = 1 << 20
	g := loadshed.NewGate(0)
	if refuses > 0 {
		in := max(1, int((1-refuses)*seen))
		for range 2 { // the second time there is a limit
			g.Observe(loadshed.Sample{Took: time.Second, Seen: in, Admitted: in, Delay: time.Minute})
		}
		g.Observe(loadshed.Sample{Took: time.Second, Seen: seen, Admitted: in})
		_ = g.Admit() // the first is let in
	}
	return g
}

// pair is a leader and a server that passes on to it over a connection, each with its gate.
type pair struct {
	leader, follower *server
	pool             *rpc.Pool // the follower's
	addr             string    // the leader's

	mu   sync.Mutex
	said []error // by the leader to the follower
}

func newPair(t *testing.T, leads, follows *loadshed.Gate) *pair {
	p := &pair{leader: newServer(t), follower: newServer(t, quick())}
	p.leader.addNode("n1", "a")
	p.leader.addVolume("v1")
	p.follower.addNode("n1", "a")
	p.follower.addVolume("v1")
	p.leader.rpc.Shed(leads)
	p.follower.rpc.Shed(follows)
	p.addr = listen(t, p.leader.rpc)
	p.pool = newPool(t)
	p.follower.raft.isMe, p.follower.raft.leader = false, p.addr
	p.follower.raft.forward = func(method string, req, resp any) error {
		err := p.pool.Call(t.Context(), p.addr, method, req, resp)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said = append(p.said, err)
		return err
	}
	return p
}

func newPool(t testing.TB) *rpc.Pool {
	pool := rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), nil)
	t.Cleanup(pool.Close)
	return pool
}

// listen has a server be called over loopback.
func listen(t testing.TB, s *rpc.Server) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		rpc.NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){rpc.ByteMux: s.ServeMux}).Run(ctx)
	})
	t.Cleanup(func() { cancel(); s.Close(); wg.Wait() })
	return ln.Addr().String()
}

// TestOverload_OnlyTheLeaderRejectsForwardedReads: the caller receives the rejection of the leader. The
// server in between does not retry and does not count the leader as gone.
func TestOverload_OnlyTheLeaderRejectsForwardedReads(t *testing.T) {
	p := newPair(t, gateThat(1), gateThat(0))
	client, follower := newPool(t), listen(t, p.follower.rpc)
	before, err := p.pool.Session(t.Context(), p.addr)
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range []rpc.Caller{client.At(follower), p.follower.rpc} {
		_, err = rpc.Call(t.Context(), c, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v1"})
		if len(p.said) != n+1 {
			t.Fatalf("the leader was asked %d times for %d reads", len(p.said), n+1)
		}
		said := p.said[n]
		if after := structs.RetryAfter(err); !structs.IsKind(err, structs.KindUnavailable) ||
			after < 200*time.Millisecond ||
			after != structs.RetryAfter(said) || err.Error() != said.Error() {
			t.Errorf("%v (%s), again after %s; the leader said %v, again after %s", err, structs.KindOf(err), after,
				said, structs.RetryAfter(said))
		}
	}
	if s, err := p.pool.Session(t.Context(), p.addr); err != nil || s != before {
		t.Errorf("the connection to the leader is another one: %v", err)
	}
	stale := structs.QueryOptions{AllowStale: true}
	if got, err := rpc.Call(t.Context(), client.At(follower), structs.CSIVolumeGet,
		&structs.CSIVolumeGetRequest{ID: "v1", QueryOptions: stale}); err != nil || got.Volume.ID != "v1" {
		t.Errorf("a stale read: %v, %v", got, err)
	}
	if len(p.said) != 2 {
		t.Error("a stale read is passed on")
	}
	if _, err := rpc.Call(t.Context(), client.At(follower), structs.CSIClaimList,
		&structs.CSIClaimListRequest{}); err != nil {
		t.Errorf("what is never refused, over the same connection: %v", err)
	}
}

// TestOverload_OneGateRejectsARead: an overloaded server rejects the reads that it answers itself.
func TestOverload_OneGateRejectsARead(t *testing.T) {
	p := newPair(t, gateThat(0), gateThat(1))
	client, follower := newPool(t), listen(t, p.follower.rpc)
	for _, c := range []rpc.Caller{client.At(follower), p.follower.rpc} {
		if _, err := rpc.Call(t.Context(), c, structs.CSIVolumeGet,
			&structs.CSIVolumeGetRequest{ID: "v1"}); err != nil {
			t.Errorf("a read that is passed on: %v", err)
		}
		stale := &structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{AllowStale: true}}
		if _, err := rpc.Call(t.Context(), c, structs.CSIVolumeList, stale); structs.RetryAfter(err) == 0 {
			t.Errorf("a stale read: %v", err)
		}
	}
	p.follower.raft.leader = "" // it has no leader to forward to, so only its own gate decides
	if _, err := rpc.Call(t.Context(), client.At(follower), structs.CSIVolumeGet,
		&structs.CSIVolumeGetRequest{ID: "v1"}); structs.RetryAfter(err) == 0 {
		t.Errorf("without a leader: %v", err)
	}
}

// TestOverload_TheLeaderIsFair: it rejects the same share of direct and of forwarded reads.
func TestOverload_TheLeaderIsFair(t *testing.T) {
	const reads = 200
	p := newPair(t, gateThat(.5), gateThat(.5))
	leader, follower := newPool(t).At(p.addr), newPool(t).At(listen(t, p.follower.rpc))
	for who, c := range map[string]rpc.Caller{"the leader": leader, "another server": follower} {
		refused := 0
		for range reads {
			_, err := rpc.Call(t.Context(), c, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v1"})
			if structs.RetryAfter(err) > 0 {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if refused < reads*4/10 || refused > reads*6/10 {
			t.Errorf("%d of %d who ask %s are refused, expected half", refused, reads, who)
		}
	}
}

// TestOverload_RejectsWritesUndecoded, but not one that mostly changes nothing.
func TestOverload_RejectsWritesUndecoded(t *testing.T) {
	l := newLoaded(t, 1, 0)
	l.paced.line <- struct{}{} // the one that is let in is held
	var held sync.WaitGroup
	defer held.Wait()
	defer func() { <-l.paced.line }()
	held.Go(func() { _ = l.write(t) })
	for deadline := time.Now().Add(time.Minute); l.writes.Full(0) == nil && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	served := 0
	for _, e := range l.List() {
		if e.Admit != nil {
			if after := structs.RetryAfter(e.Admit(0)); after < soonest || after > latest {
				t.Errorf("%s: again after %s", e.Name, after)
			}
			served++
		}
	}
	if served < 10 {
		t.Errorf("%d writes know of their room", served)
	}
	node := &structs.NodeEligibilityRequest{} // invalid, but not decoded
	if _, err := rpc.Call(t.Context(), l.rpc, structs.NodeEligibility, node); structs.RetryAfter(err) == 0 {
		t.Errorf("%v", err)
	}
	beat := &structs.NodeHeartbeatRequest{NodeID: "n1", SecretID: secretOf("n1"), Status: structs.NodeReady}
	if _, err := rpc.Call(t.Context(), l.rpc, structs.NodeHeartbeat, beat); err != nil {
		t.Errorf("a heartbeat: %v", err)
	}
}
