package rpc

import (
	"context"
	stdrpc "net/rpc"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"

	"berth/internal/codec"
	"berth/structs"
)

// TestServer_ServesInlineRequestsInOrder: the goroutine that reads inline requests serves them in the order
// of their arrival. Other requests, and blocking queries, delay none.
func TestServer_ServesInlineRequestsInOrder(t *testing.T) {
	var serving, most atomic.Int32
	began := make(chan struct{})
	release := make(chan struct{})
	quick := Handle(lookMethod, func(_ context.Context, r *lookRequest) (*echo, error) {
		if r.MinIndex > 0 || r.Prefix == "slow" {
			began <- struct{}{}
			<-release
			return &echo{"waited"}, nil
		}
		most.Store(max(most.Load(), serving.Add(1)))
		defer serving.Add(-1)
		return &echo{r.Prefix}, nil
	})
	quick.Inline = func(req any) bool { return req.(*lookRequest).Prefix != "slow" }
	near, _ := servePipe(t, NewServer(hclog.NewNullLogger(), quick))
	c := stdrpc.NewClientWithCodec(msgpackrpc.NewCodecFromHandle(true, true, near, codec.Handle))
	start := func(o structs.QueryOptions) *stdrpc.Call {
		return c.Go(lookMethod.Name, &lookRequest{o}, &echo{}, nil)
	}
	slow := []*stdrpc.Call{
		start(structs.QueryOptions{MinIndex: 7}),
		start(structs.QueryOptions{Prefix: "slow"}),
	}
	<-began
	<-began
	var calls []*stdrpc.Call
	for _, name := range []string{"a", "b", "c", "d"} {
		calls = append(calls, start(structs.QueryOptions{Prefix: name}))
	}
	for i, call := range calls {
		<-call.Done
		if want := string(rune('a' + i)); call.Error != nil || call.Reply.(*echo).Text != want {
			t.Errorf("call %d got %v, %v; want %q", i, call.Reply, call.Error, want)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d inline requests of one stream ran at once, want 1", most.Load())
	}
	close(release)
	for _, call := range slow {
		<-call.Done
		if call.Error != nil || call.Reply.(*echo).Text != "waited" {
			t.Errorf("a slow call got %v, %v; want %q", call.Reply, call.Error, "waited")
		}
	}
}

// TestServer_DoesNotChangeTheCallersRequest: a handler may change its request, which is a copy.
func TestServer_DoesNotChangeTheCallersRequest(t *testing.T) {
	srv := NewServer(hclog.NewNullLogger(), Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) {
		r.Text += " changed"
		return r, nil
	}))
	t.Cleanup(srv.Close)
	req := &echo{"mine"}
	for range 2 {
		got, err := Call(t.Context(), srv, echoMethod, req)
		if err != nil || got.Text != "mine changed" || req.Text != "mine" {
			t.Errorf("got %v, %v and the request %q; want the request unchanged", got, err, req.Text)
		}
	}
}

// TestServer_InlineCallsMakeFewAllocations: a goroutine, a context or a timer for each call would add more.
func TestServer_InlineCallsMakeFewAllocations(t *testing.T) {
	quick := echoEndpoint()
	quick.Inline = func(any) bool { return true }
	near, _ := servePipe(t, NewServer(hclog.NewNullLogger(), quick))
	req, err := codec.Append(appendRequestHead(nil, echoMethod.Name, 1), &echo{"hello"})
	if err != nil {
		t.Fatal(err)
	}
	in := newMessages(near, 1<<20)
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := near.Write(req); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := in.next(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > 8 { // the request, its text, its permit, its decoder
		t.Errorf("a call makes %.1f allocations, want at most 8", allocs)
	}
}

// brokenAnswer appends a part of itself, and then fails or panics.
type brokenAnswer struct{ panics bool }

func (h brokenAnswer) AppendResponse(a *Response) error {
	for range 3 {
		_ = a.Put(append(a.Bytes(), make([]byte, chunk)...))
	}
	if h.panics {
		panic("halfway")
	}
	return structs.Errorf(structs.KindConflict, "halfway")
}

// TestServer_AnAnswerThatDoesNotEncodeIsAnError: the caller gets the error, and the connection continues.
func TestServer_AnAnswerThatDoesNotEncodeIsAnError(t *testing.T) {
	e := echoEndpoint()
	e.ServeRemote = func(_ context.Context, req any) (any, error) {
		switch req.(*echo).Text {
		case "fails":
			return brokenAnswer{}, nil
		case "panics":
			return brokenAnswer{panics: true}, nil
		}
		return req, nil
	}
	srv := NewServer(hclog.NewNullLogger(), e)
	near, _ := servePipe(t, srv)
	st := newStream(near, 1<<20)
	for text, want := range map[string]structs.Kind{
		"fails":     structs.KindConflict,
		"panics":    structs.KindInternal,
		"goes well": "",
	} {
		if err := st.call(echoMethod.Name, &echo{text}, &echo{}); structs.KindOf(err) != want {
			t.Errorf("%s: got %v, want kind %q", text, err, want)
		}
	}
	if got, err := Call(t.Context(), srv, echoMethod, &echo{"fails"}); err != nil || got.Text != "fails" {
		t.Errorf("a call in the process got %v, %v; want its own text", got, err)
	}
}
