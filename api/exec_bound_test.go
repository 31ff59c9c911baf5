package api_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/structs"
)

// keeper is a listener that tells of its connections.
type keeper struct {
	net.Listener
	conns chan net.Conn
}

func (k *keeper) Accept() (net.Conn, error) {
	conn, err := k.Listener.Accept()
	if err == nil {
		k.conns <- conn
	}
	return conn, err
}

// forwarder is an agent that forwards at most two commands, to another agent.
type forwarder struct {
	*server
	atNode chan net.Conn      // the connections to the other agent
	began  chan chan struct{} // a command runs there; a close of its channel ends it
	served chan struct{}      // a request of the forwarder has ended
}

func newForwarder(t *testing.T) *forwarder {
	f := &forwarder{
		server: &server{caller: &apitest.Caller{}, agent: newAgent()},
		atNode: make(chan net.Conn, 10),
		began:  make(chan chan struct{}),
		served: make(chan struct{}, 10),
	}
	node := &server{agent: newAgent()}
	runsCommands(node, func(ctx context.Context, _ *api.Exec) (int, error) {
		finish := make(chan struct{})
		f.began <- finish
		select {
		case <-finish:
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	node.Server = httptest.NewUnstartedServer(api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: &apitest.Caller{},
		Agent:  node.agent,
		Logger: hclog.NewNullLogger(),
	}))
	node.Listener = &keeper{node.Listener, f.atNode}
	node.Start()
	t.Cleanup(node.Close)
	placeOn(f.server, node.Listener.Addr().String())
	h := api.NewHandler(api.Config{
		Routes:       areas.Routes(),
		Caller:       f.caller,
		Agent:        f.agent,
		Logger:       hclog.NewNullLogger(),
		MaxForwarded: 2,
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { f.served <- struct{}{} }()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// forwarded is a command that runs at the other agent.
type forwarded struct {
	user   *websocket.Conn
	atNode net.Conn
	finish chan struct{}
}

func (f *forwarder) begin(t *testing.T) *forwarded {
	t.Helper()
	user := dial(t, f.server)
	return &forwarded{user, <-f.atNode, <-f.began}
}

// checkRejected checks that one more command is rejected.
func (f *forwarder) checkRejected(t *testing.T) {
	t.Helper()
	_, err := runExec(t.Context(), newClient(t, f.server), "here", "", &api.Exec{Command: []string{"sh"}})
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "forwards 2 commands") {
		t.Fatalf("one command more: %v", err)
	}
	<-f.served
}

// TestExec_ForwardedCommandsAreBounded: each way in which a command ends frees its place.
func TestExec_ForwardedCommandsAreBounded(t *testing.T) {
	f := newForwarder(t)
	f.begin(t)
	for _, end := range []func(x *forwarded){
		func(x *forwarded) { close(x.finish) },       // the command itself
		func(x *forwarded) { _ = x.user.CloseNow() }, // the connection of the user breaks
		func(x *forwarded) { _ = x.atNode.Close() },  // the connection to the other agent breaks
	} {
		x := f.begin(t)
		f.checkRejected(t)
		end(x)
		for err := error(nil); err == nil; { // the user reads to the end and leaves, as clients do
			_, _, err = x.user.Read(t.Context())
		}
		_ = x.user.CloseNow()
		<-f.served
	}
	f.begin(t)
	f.checkRejected(t)
}
