package rpc

import (
	"context"
	"net"
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
	var busy, most atomic.Int32
	held, free := make(chan struct{}), make(chan struct{})
	quick := Handle(lookMethod, func(_ context.Context, r *lookRequest) (*echo, error) {
		if r.MinIndex > 0 || r.Prefix == "slow" {
			held <- struct{}{}
			<-free
			return &echo{"waited"}, nil
		}
		most.Store(max(most.Load(), busy.Add(1)))
		defer busy.Add(-1)
		return &echo{r.Prefix}, nil
	})
	quick.Inline = func(req any) bool { return req.(*lookRequest).Prefix != "slow" }
	srv := NewServer(hclog.NewNullLogger(), quick)
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() { defer close(served); srv.ServeConn(far) }()
	c := stdrpc.NewClientWithCodec(msgpackrpc.NewCodecFromHandle(true, true, near, codec.Handle))
	t.Cleanup(func() { near.Close(); srv.Close(); <-served })

	slow := []*stdrpc.Call{
		c.Go(lookMethod.Name, &lookRequest{structs.QueryOptions{MinIndex: 7}}, &echo{}, nil),
		c.Go(lookMethod.Name, &lookRequest{structs.QueryOptions{Prefix: "slow"}}, &echo{}, nil),
	}
	<-held
	<-held
	var calls []*stdrpc.Call
	for _, name := range []string{"a", "b", "c", "d"} {
		calls = append(calls, c.Go(lookMethod.Name, &lookRequest{structs.QueryOptions{Prefix: name}}, &echo{}, nil))
	}
	for i, call := range calls {
		if <-call.Done; call.Error != nil || call.Reply.(*echo).Text != string(rune('a'+i)) {
			t.Errorf("call %d: %v, %v", i, call.Reply, call.Error)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d quick requests of one stream at once", most.Load())
	}
	close(free)
	for _, call := range slow {
		if <-call.Done; call.Error != nil || call.Reply.(*echo).Text != "waited" {
			t.Errorf("%v, %v", call.Reply, call.Error)
		}
	}
}

// TestServer_DoesNotChangeTheCallersRequest, which a handler may do with its own.
func TestServer_DoesNotChangeTheCallersRequest(t *testing.T) {
	srv := NewServer(hclog.NewNullLogger(), Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) {
		r.Text += " changed"
		return r, nil
	}))
	t.Cleanup(srv.Close)
	req := &echo{"mine"}
	for range 2 {
		if got, err := Call(t.Context(), srv, echoMethod, req); err != nil || got.Text != "mine changed" ||
			req.Text != "mine" {
			t.Errorf("%v, %v; the request is %q", got, err, req.Text)
		}
	}
}

// TestServer_InlineCallsMakeFewAllocations: a goroutine, a context or a timer for each would show there.
func TestServer_InlineCallsMakeFewAllocations(t *testing.T) {
	quick := Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil })
	quick.Inline = func(any) bool { return true }
	srv := NewServer(hclog.NewNullLogger(), quick)
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() { defer close(served); srv.ServeConn(far) }()
	t.Cleanup(func() { near.Close(); srv.Close(); <-served })
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
	if allocs > 8 { // the request, its text, its place, its decoder
		t.Errorf("%.1f allocations for a call", allocs)
	}
}

// halfway appends a part of itself, and then fails or panics.
type halfway struct{ panics bool }

func (h halfway) AppendResponse(a *Response) error {
	for range 3 {
		_ = a.Put(append(a.Bytes(), make([]byte, chunk)...))
	}
	if h.panics {
		panic("halfway")
	}
	return structs.Errorf(structs.KindConflict, "halfway")
}

// TestServer_AnAnswerThatDoesNotEncodeIsAnError, and the connection continues.
func TestServer_AnAnswerThatDoesNotEncodeIsAnError(t *testing.T) {
	e := Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil })
	e.ServeRemote = func(_ context.Context, req any) (any, error) {
		switch req.(*echo).Text {
		case "fails":
			return halfway{}, nil
		case "panics":
			return halfway{panics: true}, nil
		}
		return req, nil
	}
	srv := NewServer(hclog.NewNullLogger(), e)
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() { defer close(served); srv.ServeConn(far) }()
	t.Cleanup(func() { near.Close(); srv.Close(); <-served })
	st := newStream(near, 1<<20)
	for text, want := range map[string]structs.Kind{"fails": structs.KindConflict,
		"panics": structs.KindInternal, "goes well": ""} {
		if err := st.call(echoMethod.Name, &echo{text}, &echo{}); structs.KindOf(err) != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if got, err := Call(t.Context(), srv, echoMethod, &echo{"fails"}); err != nil || got.Text != "fails" {
		t.Errorf("in the process: %v, %v", got, err)
	}
}
