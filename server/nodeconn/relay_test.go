package nodeconn

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// hello is the request with which a node makes its connection known.
var hello = structs.Read[structs.QueryRequest, structs.Empty]("Test.Hello")

// fakeServer is a server to which nodes may have connections.
type fakeServer struct {
	sessions *Sessions
	addr     string
}

// listen starts an RPC server on the loopback.
func listen(t *testing.T, endpoints ...rpc.Endpoint) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(hclog.NewNullLogger(), endpoints...)
	ctx, cancel := context.WithCancel(context.Background())
	l := rpc.NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){rpc.ByteMux: server.ServeMux})
	var run sync.WaitGroup
	run.Go(func() { l.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		server.Close()
		run.Wait()
	})
	return ln.Addr().String()
}

func newServer(t *testing.T, peers Peers) *fakeServer {
	t.Helper()
	s := &fakeServer{sessions: NewSessions(peers)}
	s.addr = listen(t,
		rpc.Handle(hello, func(ctx context.Context, _ *structs.QueryRequest) (*structs.Empty, error) {
			s.sessions.Bind("n1", rpc.SessionFrom(ctx))
			return &structs.Empty{}, nil
		}),
		rpc.Handle(nodecalls.Relay, s.sessions.Relay))
	return s
}

// fakePeers are the servers beside the leader.
type fakePeers struct {
	pool  *rpc.Pool
	addrs []string
}

func (p *fakePeers) Self() string     { return "10.0.0.1:4747" }
func (p *fakePeers) Others() []string { return p.addrs }

func (p *fakePeers) Relay(
	ctx context.Context, addr string, req *nodecalls.RelayRequest,
) (*nodecalls.RelayResponse, error) {
	return rpc.Call(ctx, p.pool.At(addr), nodecalls.Relay, req)
}

// network is a leader with two followers. The node names its volume after the server that called it.
type network struct {
	leader    *fakeServer
	followers []*fakeServer
	node      *rpc.Pool
	fault     error // of the node
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{}
	peers := &fakePeers{pool: rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), nil)}
	t.Cleanup(peers.pool.Close)
	n.leader = newServer(t, peers)
	for range 2 {
		f := newServer(t, nil)
		n.followers = append(n.followers, f)
		peers.addrs = append(peers.addrs, f.addr)
	}
	served := rpc.NewServer(hclog.NewNullLogger(), rpc.Handle(nodecalls.ClientCSIControllerCreate,
		func(_ context.Context, r *nodecalls.ClientCSICreateRequest) (*nodecalls.ClientCSICreateResponse, error) {
			if n.fault != nil {
				return nil, n.fault
			}
			return &nodecalls.ClientCSICreateResponse{ExternalID: "made " + r.Name}, nil
		}))
	n.node = rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), served)
	t.Cleanup(func() {
		n.node.Close()
		served.Close()
	})
	return n
}

func (n *network) connect(t *testing.T, to *fakeServer) {
	t.Helper()
	_, err := rpc.Call(t.Context(), n.node.At(to.addr), hello, &structs.QueryRequest{})
	if err != nil {
		t.Fatal(err)
	}
}

func (n *network) create(t *testing.T) (string, error) {
	t.Helper()
	req := &nodecalls.ClientCSICreateRequest{Name: "v"}
	resp := &nodecalls.ClientCSICreateResponse{}
	err := n.leader.sessions.Call(t.Context(), "n1", nodecalls.ClientCSIControllerCreate.Name, req, resp)
	return resp.ExternalID, err
}

func TestCall_GoesOverTheServerThatTheNodeReaches(t *testing.T) {
	n := newNetwork(t)
	n.connect(t, n.followers[1])
	got, err := n.create(t)
	if err != nil || got != "made v" {
		t.Errorf("got %q, %v", got, err)
	}
	n.fault = structs.Conflictf("another one is there")
	_, err = n.create(t)
	if !structs.IsKind(err, structs.KindConflict) || !strings.Contains(err.Error(), n.followers[1].addr) {
		t.Errorf("the fault of the node arrives as %v", err)
	}
}

// The connection to the leader may be dead without a reset: the node now speaks to another server.
func TestCall_LeavesAConnectionThatTheNodeDoesNotUse(t *testing.T) {
	n := newNetwork(t)
	dead := &fakeSession{done: make(chan struct{})} // its Call panics
	n.leader.sessions.Bind("n1", dead)
	n.connect(t, n.followers[0])
	n.leader.sessions.NoteElsewhere("n1")
	got, err := n.create(t)
	if err != nil || got != "made v" {
		t.Errorf("got %q, %v", got, err)
	}

	n.connect(t, n.leader)
	n.followers[0].sessions.Drop("n1")
	got, err = n.create(t)
	if err != nil || got != "made v" {
		t.Errorf("back at the leader: %q, %v", got, err)
	}
}

// An operator learns which addresses the node has to reach.
func TestCall_NamesTheAddressesOfServersWithoutAConnection(t *testing.T) {
	n := newNetwork(t)
	_, err := n.create(t)
	if !structs.IsKind(err, structs.KindUnavailable) || structs.IsNotServed(err) {
		t.Errorf("got %v, want unavailable", err)
	}
	for _, addr := range []string{"10.0.0.1:4747", n.followers[0].addr, n.followers[1].addr} {
		if !strings.Contains(err.Error(), addr) {
			t.Errorf("%v does not name %s", err, addr)
		}
	}
}
