package cluster_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"berth/rpc"
	"berth/test/cluster"
)

// dialingLayer connects to the Raft of servers. Nobody connects to it.
type dialingLayer struct {
	net.Listener
}

func (dialingLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", string(addr), timeout)
	if err != nil {
		return nil, err
	}
	_, err = conn.Write([]byte{rpc.ByteRaft})
	return conn, err
}

// elect lets a server begin an election at once, as a leader does when it transfers its leadership.
func elect(c *cluster.Cluster, s *cluster.Server) {
	c.T.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.T.Fatal(err)
	}
	transport := raft.NewNetworkTransport(dialingLayer{ln}, 1, cluster.Patience, io.Discard)
	defer transport.Close()
	req := &raft.TimeoutNowRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
	}
	addr := raft.ServerAddress(s.Current().RPCAddr())
	err = transport.TimeoutNow("", addr, req, new(raft.TimeoutNowResponse))
	if err != nil {
		c.T.Fatal(err)
	}
}

// A leader sends heartbeats, and their answers are delayed until another server was elected. They do not show
// that it still leads. It would answer reads from an old state, and grant leases of which its successor does
// not know.
func TestVerifyLeader_CountsNoAnswerToAnEarlierHeartbeat(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, likeAgents)
	for range 20 {
		old := c.Leader()
		others := c.Others(old)
		for _, o := range others {
			c.Net.CutOneWay(o.Name, old.Name)
		}
		c.Await("answers to heartbeats are on the way", func() bool {
			return c.Net.Holds(others[0].Name, old.Name) && c.Net.Holds(others[1].Name, old.Name)
		})
		elect(c, others[0])
		c.Leader(others...)
		leads := old.Leads()
		verified := make(chan error, 1)
		go func() { verified <- old.Current().VerifyLeader() }()
		// The check has probably begun after that. One that begins later must fail too.
		time.Sleep(20 * time.Millisecond)
		c.Net.HealOneWay(others[1].Name, old.Name) // the late answers arrive, and nothing of the new leader
		err := <-verified
		if err == nil {
			t.Fatal("a server verified its leadership after another one was elected")
		}
		c.Net.Heal()
		c.Await("the former leader follows", func() bool {
			_, leads, known, _ := old.Current().Leader()
			return known && !leads
		})
		if leads {
			return
		}
	}
	t.Error("no server led until the answers to its heartbeats came")
}
