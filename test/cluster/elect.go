package cluster

import (
	"io"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"berth/rpc"
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

// Elect lets a server begin an election at once, as a leader does when it transfers its leadership. It does
// not wait for the result.
func (c *Cluster) Elect(s *Server) {
	c.T.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.T.Fatal(err)
	}
	transport := raft.NewNetworkTransport(dialingLayer{ln}, 1, Patience, io.Discard)
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

// AskVote asks a server for its vote as a candidate with an ID would whose log is ahead of all others.
func (c *Cluster) AskVote(s *Server, candidate string) (granted bool) {
	c.T.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.T.Fatal(err)
	}
	transport := raft.NewNetworkTransport(dialingLayer{ln}, 1, Patience, io.Discard)
	defer transport.Close()

	const ahead = 1 << 40
	req := &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax,
			ID:              []byte(candidate),
			Addr:            []byte("127.0.0.1:1"),
		},
		Term:               ahead,
		LastLogIndex:       ahead,
		LastLogTerm:        ahead,
		LeadershipTransfer: true,
	}
	resp := new(raft.RequestVoteResponse)
	err = transport.RequestVote("", raft.ServerAddress(s.Current().RPCAddr()), req, resp)
	return err == nil && resp.Granted
}

// form waits until a server has the first Raft configuration, and lets it begin the election. So a cluster
// with a long timeout does not wait for it. If that election fails, a later one begins by the timeout.
func (c *Cluster) form() {
	c.T.Helper()
	if len(c.Servers) == 1 {
		return // it needs no vote of another server
	}
	var first *Server
	c.Await("a server has the Raft configuration", func() bool {
		for _, s := range c.Servers {
			if len(s.Current().Configuration()) == len(c.Servers) {
				first = s
				return true
			}
		}
		return false
	})
	_, _, known, _ := first.Current().Leader()
	if !known {
		c.Elect(first)
	}
}
