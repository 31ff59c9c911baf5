package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client"
	"berth/client/allocrunner/taskrunner"
	"berth/client/assembly"
	"berth/rpc"
	"berth/server"
	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

// emptyParts are the subsystems of a node without drivers and plugins.
type emptyParts struct{ taskrunner.Drivers }

func (emptyParts) WaitFirst(context.Context) error         { return nil }
func (emptyParts) Infos() map[string]*structs.DriverInfo   { return nil }
func (emptyParts) Instances() []*structs.CSIPluginInstance { return nil }
func (emptyParts) Changes() <-chan struct{}                { return nil }
func (b emptyParts) build(assembly.Parts) (*assembly.Subsystems, error) {
	return &assembly.Subsystems{Drivers: b, Plugins: b}, nil
}

// noPrograms is the folder in which an agent looks for network plugins. It starts none: each process that a
// test starts has, for a moment, the files of all servers, and with them the locks of their directories. A
// server that another test starts again at that moment would find its directory locked.
const noPrograms = "/nonexistent"

// startNodeAgent runs the agent of a node over the network of the cluster until the test ends.
func startNodeAgent(t *testing.T, c *cluster.Cluster, name string) *client.Client {
	t.Helper()
	cfg := client.DefaultConfig()
	cfg.Enabled = true
	cfg.DataDir = t.TempDir()
	cfg.NodeName = name
	cfg.Settings.Path = noPrograms
	cfg.Datacenter = "dc1"
	for _, s := range c.Servers {
		cfg.Servers = append(cfg.Servers, s.Current().RPCAddr())
	}
	pool := rpc.NewPool(c.Net.From(name).Dial, hclog.NewNullLogger(), nil)
	n, err := client.New(cfg,
		client.Deps{Pool: pool, Build: emptyParts{}.build})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		c.Net.Heal()
		pool.Close()
		<-ended
	})
	select {
	case <-n.Registered():
	case <-time.After(cluster.Patience):
		t.Fatal("the node did not get registered")
	}
	return n
}

// The leader is partitioned from all others, and its connections stay open. No node becomes down, or loses
// its lease: each renews it at another server.
func TestCutLeader_TakesNoNodeDown(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, func(cfg *server.Config) {
		cfg.HeartbeatTTL = 5 * time.Second
		cfg.HeartbeatGrace = 15 * time.Second
	})
	node := startNodeAgent(t, c, "n1")
	old := c.Leader()
	others := c.Others(old)
	c.Await("the node is with the leader", func() bool {
		return node.Servers()[0] == old.Current().RPCAddr()
	})
	c.Net.Cut(old.Name, append(cluster.Names(others), "n1")...)
	leader := c.Leader(others...)
	c.Await("the node is with the new leader, or down", func() bool {
		if length, age := node.Lease(); age >= length {
			t.Errorf("the lease has ended: it is of %s and has the age %s", length, age)
		}
		n := state.Node(leader.Store().Read(), node.NodeID())
		return node.Servers()[0] == leader.Current().RPCAddr() || n.Status == structs.NodeDown
	})
	for _, e := range state.Node(leader.Store().Read(), node.NodeID()).Events {
		if e.Message == "Node heartbeat missed" {
			t.Error("the node became down")
		}
	}
}

// likeAgents gives servers the timeout of agents. A request waits 20 s for an election, in place of the 5 s
// that do for agents, because a busy machine may need longer.
func likeAgents(cfg *server.Config) {
	cfg.RaftTimeout = 250 * time.Millisecond
	cfg.RaftMultiplier = 4
}

// A blocking query at a follower ends with a change although the leader that the follower had called was
// partitioned.
func TestCutLeader_EndsNoWaitAtAFollower(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, likeAgents)
	old := c.Leader()
	others := c.Others(old)
	cluster.Must(c, old, structs.JobRegister, jobRequest("before"))
	answers := make(chan error, len(others))
	for _, s := range others {
		resp := cluster.Must(c, s, structs.JobList, &structs.QueryRequest{})
		go func() {
			var err error
			for err == nil && len(resp.Jobs) == 1 { // the evaluation of the first job is a change, too
				req := &structs.QueryRequest{}
				req.MinIndex = resp.Index
				req.MaxWait = cluster.Patience
				resp, err = callWithin(s, cluster.Patience, structs.JobList, req)
			}
			answers <- err
		}()
	}
	write := make(chan error, 1)
	c.Net.Cut(old.Name, cluster.Names(others)...)
	go func() {
		_, err := callWithin(others[0], cluster.Patience, structs.JobRegister, jobRequest("unknown"))
		write <- err
	}()
	leader := c.Leader(others...)
	cluster.Must(c, leader, structs.JobRegister, jobRequest("after"))
	for range others {
		if err := <-answers; err != nil {
			t.Errorf("a wait ended with %v (%s)", err, structs.KindOf(err))
		}
	}
	// A write may have happened: only its caller may repeat it.
	if err := <-write; err != nil {
		checkError(t, err, structs.KindTimeout, "leader changed", "repeat")
	}
}

// awaitSecondJob makes blocking queries until the list of jobs has two. An answer without a new index is an
// error.
func awaitSecondJob(ctx context.Context, at rpc.Caller, resp *structs.JobListResponse) error {
	for len(resp.Jobs) == 1 {
		req := &structs.QueryRequest{}
		req.MinIndex = resp.Index
		req.MaxWait = cluster.Patience
		next, err := rpc.Call(ctx, at, structs.JobList, req)
		switch {
		case err != nil:
			return err
		case next.Index <= req.MinIndex:
			return fmt.Errorf("got index %d, want one above %d", next.Index, req.MinIndex)
		}
		resp = next
	}
	return nil
}

// Blocking queries of a connection to the leader itself end with a change although the leader is partitioned
// and then follows another one, which answers them.
func TestCutLeader_EndsNoWaitAtTheLeaderItself(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, likeAgents)
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("before"))
	old := c.Leader()
	others := c.Others(old)
	pool := rpc.NewPool(c.Net.From("reader").Dial, c.Logger, nil)
	t.Cleanup(pool.Close)
	at := pool.At(old.Current().RPCAddr())
	list := func() *structs.JobListResponse {
		resp, err := rpc.Call(t.Context(), at, structs.JobList, &structs.QueryRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	const readers = 4
	answers := make(chan error, readers)
	for range readers {
		resp := list()
		go func() { answers <- awaitSecondJob(t.Context(), at, resp) }()
	}
	for range readers { // after these the leader has verified its leadership for the blocking queries
		list()
	}
	c.Net.Cut(old.Name, cluster.Names(others)...)
	c.Await("it leads no more", func() bool {
		return !old.Leads()
	})
	c.Leader(others...)
	c.Net.Heal()
	c.Await("it follows another leader", func() bool {
		_, leads, known, _ := old.Current().Leader()
		return known && !leads
	})
	cluster.Must(c, others[0], structs.JobRegister, jobRequest("after"))
	for range readers {
		if err := <-answers; err != nil {
			t.Errorf("a wait ended with %v (%s)", err, structs.KindOf(err))
		}
	}
}

// A request during an election waits for the new leader. Its error does not mention the connection to the old
// one.
func TestElection_IsWaitedFor(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, likeAgents)
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("before"))
	old := c.Leader()
	others := c.Others(old)
	if err := old.Kill(); err != nil {
		t.Error(err)
	}
	for _, s := range others {
		resp, err := callWithin(s, cluster.Patience, structs.JobList, &structs.QueryRequest{})
		if err != nil || len(resp.Jobs) != 1 {
			t.Errorf("a read at %s: %+v, %v (%s)",
				s.Name, resp, err, structs.KindOf(err))
		}
	}
	c.Leader(others...)
	if err := others[0].Kill(); err != nil {
		t.Error(err)
	}
	var err error
	for tries := 0; err == nil && tries < 10; tries++ { // late answers of the dead server may confirm a leader
		_, err = callWithin(others[1], cluster.Patience, structs.JobList, &structs.QueryRequest{})
	}
	checkError(t, err, structs.KindUnavailable, "no leader", "try again")
	c.Restart(old)
}

// The gossip of a server may connect to another one after the end of the test.
func TestNetwork_ConnectsNobodyAfterItsEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := cluster.NewNetwork()
	n.Close()
	conn, err := n.From("s1").Dial(l.Addr().String(), cluster.Patience)
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, %v", conn, err)
	}
}
