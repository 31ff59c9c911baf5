package cluster_test

import (
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"berth/server"
	"berth/test/cluster"
)

// silenced is a server whose gossip is cut off, while its RPC is open.
type silenced struct{ name, addr string }

// silence is the way of the gossip of all servers of a cluster.
type silence struct{ of atomic.Pointer[silenced] }

// option lets the gossip of a server go through the silence.
func (s *silence) option(cfg *server.Config) {
	whole := cfg.Gossip
	name := cfg.Name
	cfg.Gossip = func(t *memberlist.NetTransport) memberlist.NodeAwareTransport {
		return silentGossip{whole(t), name, s}
	}
}

// cut cuts the gossip of a server off.
func (s *silence) cut(at *cluster.Server) {
	m := at.Current().Member()
	s.of.Store(&silenced{at.Name, net.JoinHostPort(m.Addr, strconv.Itoa(int(m.Port)))})
}

// silentGossip sends nothing from and to the server that is silenced.
type silentGossip struct {
	memberlist.NodeAwareTransport
	name string
	*silence
}

func (g silentGossip) drops(addr string) bool {
	of := g.of.Load()
	return of != nil && (of.name == g.name || of.addr == addr)
}

func (g silentGossip) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if g.drops(a.Addr) {
		return time.Now(), nil
	}
	return g.NodeAwareTransport.WriteToAddress(b, a)
}

func (g silentGossip) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if g.drops(a.Addr) {
		return nil, os.ErrDeadlineExceeded
	}
	return g.NodeAwareTransport.DialAddressTimeout(a, timeout)
}

// spared closes a channel when a leader's log says that it does not remove a failed server.
type spared struct {
	seen chan struct{}
	once sync.Once
}

// Accept implements hclog.SinkAdapter.
func (r *spared) Accept(_ string, _ hclog.Level, words string, args ...any) {
	for _, a := range args {
		err, is := a.(error)
		if words == "failed to remove a dead server" && is && strings.Contains(err.Error(), "but answers at") {
			r.once.Do(func() { close(r.seen) })
		}
	}
}

// newSpared makes five servers, of which autopilot may remove one, with the silence of their gossip.
func newSpared(t *testing.T) (*cluster.Cluster, *silence, *spared) {
	t.Helper()
	r := &spared{seen: make(chan struct{})}
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard})
	log.RegisterSink(r)
	s := &silence{}
	c := cluster.NewLogged(t, log, 5, rareElections, removesTheDead, s.option, func(cfg *server.Config) {
		cfg.Autopilot.ServerStabilizationTime = time.Hour // who loses the vote does not get it again
	})
	awaitAllVote(t, c)
	return c, s, r
}

// await waits until the leader has spared a server, which keeps its vote.
func (r *spared) await(t *testing.T, c *cluster.Cluster, id string) {
	t.Helper()
	keeps := func() bool {
		peer := peerOf(t, c.Leader(), nil, id)
		return peer != nil && peer.Voter
	}
	c.Await("the leader spares a failed server that answers", func() bool {
		if !keeps() {
			t.Fatal("it has lost its vote")
		}
		select {
		case <-r.seen:
			return true
		default:
			return false
		}
	})
	if !keeps() {
		t.Error("it has lost its vote after the leader has spared it")
	}
}

// The gossip of a server is cut off, for example by a firewall, and its RPC is open.
func TestSilent_AServerThatAnswersKeepsItsVote(t *testing.T) {
	t.Parallel()
	c, s, r := newSpared(t)
	cut := c.Others(c.Leader())[0]
	id := peerOf(t, c.Leader(), cut, "").ID
	s.cut(cut)
	r.await(t, c, id)
}

// A server has restarted at another address. The leader has heard it there once, and takes the former place
// for failed. Nothing answers there any more.
func TestSilent_AServerThatAnswersElsewhereKeepsItsVote(t *testing.T) {
	t.Parallel()
	c, s, r := newSpared(t)
	leader := c.Leader()
	moved := c.Others(leader)[0]
	id := peerOf(t, leader, moved, "").ID
	kill(t, moved)
	c.Move(moved)
	var opened atomic.Int64
	at := leader.Current().Member()
	addr := net.JoinHostPort(at.Addr, strconv.Itoa(int(at.Port)))
	moved.Change(func(cfg *server.Config) {
		whole := cfg.Gossip
		cfg.Gossip = func(t *memberlist.NetTransport) memberlist.NodeAwareTransport {
			return countingGossip{whole(t), addr, &opened}
		}
	})
	c.Restart(moved)
	c.Await("it announces itself again, so the leader has heard it", func() bool { return opened.Load() > 1 })
	s.cut(moved)
	r.await(t, c, id)
}
