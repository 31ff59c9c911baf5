package membership

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/rpc"
	"berth/structs"
)

// pool answers each address with its own error and records the calls.
type pool struct {
	mu     sync.Mutex
	errs   map[string]error
	called []string
}

func (p *pool) Call(_ context.Context, addr, _ string, _, _ any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called = append(p.called, addr)
	return p.errs[addr]
}

// pathFault returns the error of a connection that is rejected.
func pathFault(t *testing.T) error {
	t.Helper()
	rejected := func(string, time.Duration) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	p := rpc.NewPool(rejected, hclog.NewNullLogger(), nil)
	defer p.Close()
	err := p.Call(context.Background(), "a", "M", nil, nil)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Fatalf("a rejected connection is %v", err)
	}
	return err
}

func errorOf(kind structs.Kind) error {
	return structs.Errorf(kind, "%s", kind)
}

func TestCall_TriesServersInOrder(t *testing.T) {
	away := pathFault(t)
	leaderless := structs.ErrorFromWire(structs.ErrorToWire(structs.NotServedf("no leader")))
	failed := errorOf(structs.KindUnavailable)
	unknown := errorOf(structs.KindTimeout)
	missing := errorOf(structs.KindNotFound)
	busy := structs.Busy(1, "busy")
	for _, tc := range []struct {
		name   string
		errs   map[string]error
		kind   structs.Kind
		called []string
		then   []string
	}{
		{"the first answers", nil, "", []string{"a"}, []string{"a", "b", "c"}},
		{"the first is unreachable", map[string]error{"a": away}, "",
			[]string{"a", "b"}, []string{"b", "c", "a"}},
		{"the first finds no leader", map[string]error{"a": leaderless}, "",
			[]string{"a", "b"}, []string{"b", "c", "a"}},
		{"what may have had effects is not repeated", map[string]error{"a": failed}, structs.KindUnavailable,
			[]string{"a"}, []string{"b", "c", "a"}},
		{"all are unreachable", map[string]error{"a": away, "b": away, "c": away}, structs.KindUnavailable,
			[]string{"a", "b", "c"}, []string{"a", "b", "c"}},
		{"an unknown outcome is not repeated", map[string]error{"a": unknown}, structs.KindTimeout,
			[]string{"a"}, []string{"b", "c", "a"}},
		{"an overloaded server is reachable", map[string]error{"a": busy}, structs.KindUnavailable,
			[]string{"a"}, []string{"a", "b", "c"}},
		{"an error is an answer", map[string]error{"a": missing}, structs.KindNotFound,
			[]string{"a"}, []string{"a", "b", "c"}},
	} {
		p := &pool{errs: tc.errs}
		l := NewServers(p, []string{"a", "b", "c"}, nil)
		err := l.Call(context.Background(), "M", nil, nil)
		if structs.KindOf(err) != tc.kind || !slices.Equal(p.called, tc.called) ||
			!slices.Equal(l.All(), tc.then) {
			t.Errorf("%s: %v, called %v, then %v", tc.name, err, p.called, l.All())
		}
	}
}

func TestCall_WithoutAServerIsUnavailable(t *testing.T) {
	if err := NewServers(&pool{}, nil, nil).Call(context.Background(), "M", nil, nil); !structs.IsKind(err,
		structs.KindUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestCall_AnEndedContextMovesNoServer(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := &pool{errs: map[string]error{"a": errorOf(structs.KindTimeout)}}
	l := NewServers(p, []string{"a", "b"}, nil)
	err := l.Call(ctx, "M", nil, nil)
	if err == nil || !slices.Equal(l.All(), []string{"a", "b"}) {
		t.Errorf("%v, then %v", err, l.All())
	}
}

func TestFirst_SignalsAnotherServer(t *testing.T) {
	l := NewServers(&pool{}, []string{"a", "b"}, nil)
	addr, moved := l.First()
	if addr != "a" {
		t.Fatalf("first is %s", addr)
	}
	l.Set(nil) // an empty list
	l.Set([]string{"a", "c"})
	select {
	case <-moved:
		t.Error("got a notification without a change")
	default:
	}
	l.Set([]string{"c", "a"})
	<-moved
	if addr, _ := l.First(); addr != "c" {
		t.Errorf("first is %s", addr)
	}
	if addr, _ := NewServers(&pool{}, nil, nil).First(); addr != "" {
		t.Errorf("an empty list: got the first server %s", addr)
	}
}

// A server that does not answer is not tried first again because another one names it as the leader.
func TestAvoid_PutsAServerLastUntilItIsReached(t *testing.T) {
	l := NewServers(&pool{}, []string{"a", "b", "c"}, nil)
	want := func(when string, want ...string) {
		t.Helper()
		if got := l.All(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	l.Set([]string{"a", "b", "c"})
	l.Avoid("a")
	want("avoided", "b", "c", "a")
	l.Set([]string{"a", "c", "b"})
	want("the leader is avoided", "b", "c", "a")
	for range 2 {
		if got := l.Doubtful(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("to be looked at are %v, want the leader", got)
		}
	}
	l.Reached("a")
	want("reached", "a", "b", "c")
	l.Avoid("a")
	l.Set([]string{"c", "b", "a"})
	want("another leader", "c", "b", "a")
	if got := append(l.Doubtful(), l.Doubtful()...); !slices.Equal(got, []string{"a"}) {
		t.Errorf("looked at %v, want it once", got)
	}
	l.Set([]string{"c", "b"})
	l.Set([]string{"a", "c", "b"})
	want("it was away", "a", "c", "b")
}

func TestList_ConcurrentUse(t *testing.T) {
	p := &pool{errs: map[string]error{"a": structs.NotServedf("no leader")}}
	l := NewServers(p, []string{"a", "b"}, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { _ = l.Call(context.Background(), "M", nil, nil) })
		wg.Go(func() { l.Set([]string{"b", "a"}) })
		wg.Go(func() { l.First() })
	}
	wg.Wait()
	if got := l.All(); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// stamped notes the epochs of requests.
type stamped struct{ epochs []uint64 }

func (s *stamped) Call(_ context.Context, _, _ string, req, _ any) error {
	s.epochs = append(s.epochs, req.(structs.EpochRequest).SentEpoch())
	return nil
}

// A request that is sent again after the node has got another epoch is a new one.
func TestCall_StampsTheEpochOfTheNode(t *testing.T) {
	p := &stamped{}
	l := NewServers(p, []string{"a"}, nil)
	req := &structs.CSIVolumeClaimRequest{}
	for _, epoch := range []uint64{7, 9} {
		l.SetEpoch(epoch)
		if err := l.Call(t.Context(), "M", req, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(p.epochs, []uint64{7, 9}) {
		t.Errorf("the requests have the epochs %d, want 7 and 9", p.epochs)
	}
}

// The heartbeat of a rejected agent goes on, and its calls as an operator's do.
func TestSuspend_RejectsTheCallsOfTheNodeUntilItHasAnEpoch(t *testing.T) {
	p := &stamped{}
	l := NewServers(p, []string{"a"}, nil)
	l.Suspend()
	err := l.Call(t.Context(), "M", &structs.AllocsGetRequest{}, nil)
	if structs.CauseOf(err) != structs.CauseSecondAgent || len(p.epochs) != 0 {
		t.Errorf("%d calls were made: %v", len(p.epochs), err)
	}
	l.SetEpoch(9)
	if err := l.Call(t.Context(), "M", &structs.AllocsGetRequest{}, nil); err != nil || len(p.epochs) != 1 {
		t.Errorf("%d calls were made: %v", len(p.epochs), err)
	}
}

// An agent on a copied disk has the ID and the secret of the node. Its calls wait for the servers' word.
func TestCall_OfTheNodeWaitsUntilItsAgentIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &stamped{}
		l := NewServers(p, []string{"a"}, nil)
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := l.Call(limited, "M", &structs.CSIVolumeUnpublishRequest{}, nil)
		if !structs.IsKind(err, structs.KindUnavailable) || len(p.epochs) != 0 {
			t.Errorf("%d calls were made: %v", len(p.epochs), err)
		}

		done := make(chan error, 1)
		go func() { done <- l.Call(t.Context(), "M", &structs.CSIVolumeUnpublishRequest{}, nil) }()
		synctest.Wait()
		l.SetEpoch(7)
		if err := <-done; err != nil || !slices.Equal(p.epochs, []uint64{7}) {
			t.Errorf("the requests have the epochs %d, want 7: %v", p.epochs, err)
		}
	})
}

// A nonce counts for a moment, so each call has the present proof.
func TestCall_StampsThePresentProof(t *testing.T) {
	p := &stamped{}
	nonce := "n1"
	l := NewServers(p, []string{"a"}, func() *structs.AgentProof { return &structs.AgentProof{Nonce: nonce} })
	l.SetEpoch(1)
	requests := []structs.AgentRequest{
		&structs.CSIVolumeClaimRequest{}, &structs.CSIVolumeUnpublishRequest{}, &structs.CSINodeExpandOutcome{},
	}
	for _, nonce = range []string{"n1", "n2"} {
		for _, req := range requests {
			err := l.Call(t.Context(), "M", req, nil)
			if err != nil || req.SentAgent() == nil || req.SentAgent().Nonce != nonce {
				t.Errorf("%T has the proof %+v, want %s: %v", req, req.SentAgent(), nonce, err)
			}
		}
	}
}
