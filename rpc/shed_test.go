package rpc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/loadshed"
	"berth/structs"
)

// badge is a request that a node may make.
type badge struct {
	structs.QueryOptions
	SecretID string
}

func (b *badge) Credentials() (nodeID, secretID string) { return "n", b.SecretID }

var (
	shedLook  = structs.Method[lookRequest, echo]{Name: "Test.ShedLook"}
	shedBadge = structs.Method[badge, echo]{Name: "Test.ShedBadge"}
	shedQuick = structs.Method[lookRequest, echo]{Name: "Test.ShedQuick"}
	shedPass  = structs.Method[lookRequest, echo]{Name: "Test.ShedPass"}
)

// refusing is a gate that refuses nearly all.
func refusing() *loadshed.Gate {
	g := loadshed.NewGate(0)
	for range 3 {
		g.Observe(loadshed.Sample{Took: time.Second, Seen: 1 << 20, Admitted: 1, Delay: time.Minute})
	}
	_ = g.Admit() // the first of so many is let in
	return g
}

// flooded is a server whose gate rejects nearly all that it may.
func flooded(t *testing.T) (s *Server, addr string, served *atomic.Int64) {
	served = &atomic.Int64{}
	look := func(context.Context, *lookRequest) (*echo, error) { served.Add(1); return &echo{"read"}, nil }
	shed := func(e Endpoint) Endpoint { e.Sheddable = true; return e }
	quick := shed(Handle(shedQuick, look))
	quick.Inline = func(any) bool { return true }
	passed := shed(Handle(shedPass, look))
	passed.ForwardsReads = func() bool { return true }
	s = NewServer(hclog.NewNullLogger(), shed(Handle(shedLook, look)), quick, passed,
		shed(Handle(shedBadge, func(context.Context, *badge) (*echo, error) { return &echo{"read"}, nil })),
		Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil }))
	s.Shed(refusing())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	listener := NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){ByteRPC: s.ServeConn,
		ByteMux: s.ServeMux})
	var wg sync.WaitGroup
	wg.Go(func() { listener.Run(ctx) })
	t.Cleanup(func() { cancel(); s.Close(); wg.Wait() })
	return s, ln.Addr().String(), served
}

func TestShed_RefusesReadsWithATimeToRetry(t *testing.T) {
	s, addr, served := flooded(t)
	pool := newPool(t, nil)
	for name, call := range map[string]func() (*echo, error){
		"over a session": func() (*echo, error) {
			return Call(t.Context(), pool.At(addr), shedLook,
				&lookRequest{})
		},
		"a quick one over it": func() (*echo, error) {
			return Call(t.Context(), pool.At(addr), shedQuick,
				&lookRequest{})
		},
		"in the process": func() (*echo, error) { return Call(t.Context(), s, shedLook, &lookRequest{}) },
	} {
		_, err := call()
		after := structs.RetryAfter(err)
		if !structs.IsKind(err, structs.KindUnavailable) || after < 200*time.Millisecond || after > 5*time.Second {
			t.Errorf("%s: %v, again after %s", name, err, after)
		}
	}
	if n := served.Load(); n > 0 {
		t.Errorf("%d refused reads are served all the same", n)
	}
	if _, err := Call(t.Context(), s, shedQuick, &lookRequest{}); err != nil {
		t.Errorf("a quick one in the process: %v", err)
	}
}

func TestShed_LetsSomeReadsIn(t *testing.T) {
	s, addr, _ := flooded(t)
	for _, c := range []Caller{newPool(t, nil).At(addr), s} {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				var errs [4]error
				_, errs[0] = Call(t.Context(), c, shedPass, &lookRequest{})
				_, errs[1] = Call(t.Context(), c, shedLook, &lookRequest{structs.QueryOptions{MinIndex: 1}})
				_, errs[2] = Call(t.Context(), c, shedBadge, &badge{SecretID: "of a node"})
				_, errs[3] = Call(t.Context(), c, echoMethod, &echo{"a write, or a node's call"})
				for n, err := range errs {
					if err != nil {
						t.Errorf("%d: %v", n, err)
					}
				}
				_, errs[0] = Call(t.Context(), c, shedBadge, &badge{})
				_, errs[1] = Call(t.Context(), c, shedLook, &lookRequest{structs.QueryOptions{Forwarded: true}})
				_, errs[2] = Call(t.Context(), c, shedPass, &lookRequest{structs.QueryOptions{AllowStale: true}})
				for n, err := range errs[:3] {
					if structs.RetryAfter(err) == 0 {
						t.Errorf("%d, without a secret, passed on by another server, or for any server to answer: %v", n, err)
					}
				}
			})
		}
		all.Wait()
	}
}

// TestShed_WritesRefusalsTogetherAndInTime: those of requests that come together take few writes, and all of
// them are there when the connection has nothing more to read, also within a request.
func TestShed_WritesRefusalsTogetherAndInTime(t *testing.T) {
	s, _, _ := flooded(t)
	here, there := net.Pipe()
	conn := &countingConn{Conn: there}
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(conn) })
	defer serving.Wait()
	defer here.Close()
	var b []byte
	const many = 20
	for n := range many {
		b = appendRequestHead(b, shedQuick.Name, uint64(n))
		b = append(b, 0x80) // an empty request
	}
	b = append(b, 0x82) // a request begins
	if _, err := here.Write(b); err != nil {
		t.Fatal(err)
	}
	in := newMessages(here, structs.MaxRPCAnswer)
	for n := range many {
		head, err := readAnswer(in)
		if err != nil || head.Seq != uint64(n) || structs.RetryAfter(structs.ErrorFromWire(head.Error)) == 0 {
			t.Fatalf("answer %d: %+v, %v", n, head, err)
		}
	}
	if n := conn.writes.Load(); n > 3 {
		t.Errorf("%d refusals took %d writes", many, n)
	}
}
