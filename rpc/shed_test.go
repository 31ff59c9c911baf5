package rpc

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/loadshed"
	"berth/structs"
)

// nodeRequest is a request that a node may make.
type nodeRequest struct {
	structs.QueryOptions
	SecretID string
}

func (r *nodeRequest) Credentials() (nodeID, secretID string) { return "n", r.SecretID }

var (
	shedLook  = structs.Method[lookRequest, echo]{Name: "Test.ShedLook"}
	shedNode  = structs.Method[nodeRequest, echo]{Name: "Test.ShedNode"}
	shedQuick = structs.Method[lookRequest, echo]{Name: "Test.ShedQuick"}
	shedPass  = structs.Method[lookRequest, echo]{Name: "Test.ShedPass"}
)

// rejectingGate returns a gate that rejects nearly all reads.
func rejectingGate() *loadshed.Gate {
	g := loadshed.NewGate(0)
	for range 3 {
		g.Observe(loadshed.Sample{
			Took:     time.Second,
			Seen:     1 << 20,
			Admitted: 1,
			Delay:    time.Minute,
		})
	}
	_ = g.Admit() // the gate admits the first read
	return g
}

// startRejecting serves reads behind a rejectingGate.
func startRejecting(t *testing.T) (s *Server, addr string, served *atomic.Int64) {
	t.Helper()
	served = &atomic.Int64{}
	look := func(context.Context, *lookRequest) (*echo, error) {
		served.Add(1)
		return &echo{"read"}, nil
	}
	endpoints := []Endpoint{
		Handle(shedLook, look),
		Handle(shedQuick, look),
		Handle(shedPass, look),
		Handle(shedNode, func(context.Context, *nodeRequest) (*echo, error) {
			return &echo{"read"}, nil
		}),
		echoEndpoint(),
	}
	for i := range endpoints[:4] {
		endpoints[i].Sheddable = true
	}
	endpoints[1].Inline = func(any) bool { return true }
	endpoints[2].ForwardsReads = func() bool { return true }
	s = NewServer(hclog.NewNullLogger(), endpoints...)
	s.Shed(rejectingGate())
	return s, listen(t, s, 0), served
}

func TestShed_RejectsReadsWithATimeToRetry(t *testing.T) {
	s, addr, served := startRejecting(t)
	c := newPool(t, nil).At(addr)
	for name, call := range map[string]func() error{
		"over a session":         callTo(c, shedLook, lookRequest{}),
		"inline, over a session": callTo(c, shedQuick, lookRequest{}),
		"in the process":         callTo(s, shedLook, lookRequest{}),
	} {
		err := call()
		after := structs.RetryAfter(err)
		if !structs.IsKind(err, structs.KindUnavailable) || after < 200*time.Millisecond || after > 5*time.Second {
			t.Errorf("%s: got %v with retry time %s, want unavailable with 200ms to 5s", name, err, after)
		}
	}
	if n := served.Load(); n > 0 {
		t.Errorf("%d rejected reads were served, want none", n)
	}
	if _, err := Call(t.Context(), s, shedQuick, &lookRequest{}); err != nil {
		t.Errorf("an inline read in the process failed: %v", err)
	}
}

func TestShed_AdmitsSomeReads(t *testing.T) {
	s, addr, _ := startRejecting(t)
	for _, c := range []Caller{newPool(t, nil).At(addr), s} {
		admitted := map[string]func() error{
			"a read that the leader decides on": callTo(c, shedPass, lookRequest{}),
			"a blocking query":                  callTo(c, shedLook, lookRequest{structs.QueryOptions{MinIndex: 1}}),
			"a node's read":                     callTo(c, shedNode, nodeRequest{SecretID: "of a node"}),
			"a write":                           callTo(c, echoMethod, echo{"a write, or a node's call"}),
		}
		rejected := map[string]func() error{
			"a read without a secret": callTo(c, shedNode, nodeRequest{}),
			"a forwarded read":        callTo(c, shedLook, lookRequest{structs.QueryOptions{Forwarded: true}}),
			"a stale read":            callTo(c, shedPass, lookRequest{structs.QueryOptions{AllowStale: true}}),
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for name, call := range admitted {
					if err := call(); err != nil {
						t.Errorf("%s was rejected: %v", name, err)
					}
				}
				for name, call := range rejected {
					if err := call(); structs.RetryAfter(err) == 0 {
						t.Errorf("%s: got %v, want a rejection", name, err)
					}
				}
			})
		}
		all.Wait()
	}
}

// TestShed_WritesRejectionsTogetherAndInTime: the rejections of requests that arrive together take few
// writes. All of them are written when the connection has nothing more to read, also within a request.
func TestShed_WritesRejectionsTogetherAndInTime(t *testing.T) {
	s, _, _ := startRejecting(t)
	near, far := servePipe(t, s)
	var b []byte
	const many = 20
	for n := range many {
		b = appendRequestHead(b, shedQuick.Name, uint64(n))
		b = append(b, 0x80) // an empty request
	}
	b = append(b, 0x82) // a request begins
	if _, err := near.Write(b); err != nil {
		t.Fatal(err)
	}
	in := newMessages(near, structs.MaxRPCAnswer)
	for n := range many {
		head, err := readAnswer(in)
		if err != nil || head.Seq != uint64(n) || structs.RetryAfter(structs.ErrorFromWire(head.Error)) == 0 {
			t.Fatalf("answer %d is %+v, %v; want the rejection of request %d", n, head, err, n)
		}
	}
	if n := far.writes.Load(); n > 3 {
		t.Errorf("%d rejections took %d writes, want at most 3", many, n)
	}
}
