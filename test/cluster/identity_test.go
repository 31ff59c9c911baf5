package cluster_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"berth/server"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// otherMachine starts a server on another machine than that of the others, which is this one.
func otherMachine(cfg *server.Config) { cfg.Machine = "machine:other" }

// placeWait sets the time for which a failed server keeps its place.
func placeWait(d time.Duration) cluster.Option {
	return func(cfg *server.Config) { cfg.PlaceWait = d }
}

// rejects reports whether a server shows that it has rejected another one.
func rejects(at *cluster.Server, addr string) bool {
	return slices.ContainsFunc(at.Current().Members(), func(m *rows.AgentMember) bool {
		return m.Status == "rejected" && m.Tags["rpc_addr"] == addr
	})
}

// stat returns a counter of Raft.
func stat(t *testing.T, s *cluster.Server, name string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s.Current().Stats()[name], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The data directory of a server was copied, and both start. A cut has one of them on each side.
func TestIdentity_ACopyOfAServerSplitsNothing(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, placeWait(time.Hour))
	leader := c.Leader()
	original, third := c.Others(leader)[0], c.Others(leader)[1]
	awaitAllVote(t, c)
	thirdID := peerOf(t, leader, third, "").ID
	if err := original.Kill(); err != nil {
		t.Fatal(err)
	}
	twin := c.AddCopy(original, otherMachine)
	at := twin.Current().RPCAddr()
	c.Restart(original)
	addr := original.Current().RPCAddr()
	c.Await("the leader and the third server reject the copy, and name it", func() bool {
		return rejects(leader, at) && rejects(third, at)
	})
	c.Await("the original has contact with its leader", func() bool {
		_, _, known, _ := original.Current().Leader()
		return known
	})
	if got := voters(t, leader); slices.Contains(got, at) || !slices.Contains(got, addr) {
		t.Fatalf("the voters are %q, want %s and not %s", got, addr, at)
	}

	for _, one := range []*cluster.Server{leader, original} {
		c.Net.Cut(one.Name, third.Name, twin.Name)
	}
	// The third server asks the copy for its vote, first in a term of its own.
	before := stat(t, third, "term")
	c.Elect(third)
	c.Await("the third server stands for election", func() bool { return stat(t, third, "term") > before })
	if c.AskVote(twin, thirdID) {
		t.Error("the copy gives its vote")
	}
	if third.Leads() || twin.Leads() {
		t.Error("a server leads with the vote of a copy")
	}
	side := c.Leader(leader, original)
	if _, err := callWithin(side, cluster.Patience, rows.StatusPing, &structs.QueryRequest{}); err != nil {
		t.Error(err)
	}

	c.Net.Heal()
	c.Await("the three have one leader, and the copy none of its own", func() bool {
		lead := c.Leader(leader, original, third)
		return slices.Equal(voters(t, lead), addresses([]*cluster.Server{leader, original, third})) && !twin.Leads()
	})
}

// A server that cannot read the UUID of its machine any more votes, and its record keeps the UUID: a clone
// with the same machine-id is another machine.
func TestIdentity_TheRecordOfAMachineKeepsItsUUID(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, placeWait(time.Hour))
	awaitAllVote(t, c)
	s := c.Others(c.Leader())[0]
	for _, start := range []struct {
		machine structs.MachineID
		record  string
		held    string
	}{
		{"product:1 machine:1", "product:1 machine:1\n", ""},
		{"machine:1", "product:1 machine:1\n", ""},
		{"product:2 machine:1", "product:1 machine:1\n", "1"},
	} {
		kill(t, s)
		if start.machine == "product:1 machine:1" { // the first start on that machine
			if err := os.Remove(filepath.Join(s.DataDir(), "server-machine")); err != nil {
				t.Fatal(err)
			}
		}
		s.Change(func(cfg *server.Config) { cfg.Machine = start.machine })
		c.Restart(s)
		if tag := s.Current().Member().Tags["held"]; tag != start.held {
			t.Errorf("as %q it is held: %q, want %q", start.machine, tag, start.held)
		}
		got, err := os.ReadFile(filepath.Join(s.DataDir(), "server-machine"))
		if err != nil || string(got) != start.record {
			t.Errorf("as %q it has the record %q (%v), want %q", start.machine, got, err, start.record)
		}
	}
}

// The machine of a server is gone, and its disk is in another one. It gets its vote from a leader that was
// elected without it.
func TestIdentity_AServerOnAnotherMachineVotesAfterItWasAddedAnew(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, placeWait(time.Millisecond))
	leader := c.Leader()
	moved := c.Others(leader)[0]
	id := killAndAwaitFailed(c, t, moved, leader)
	c.Move(moved)
	moved.Change(otherMachine)
	c.Restart(moved)
	if addr := moved.Current().RPCAddr(); slices.Contains(voters(t, c.Leader()), addr) {
		t.Error("its vote counts on the new machine before it was added anew")
	}
	c.Await("it votes", func() bool {
		at := c.Leader()
		peer := peerOf(t, at, moved, id)
		return peer != nil && peer.Voter && peer.Address == moved.Current().RPCAddr() &&
			moved.Current().Member().Tags["held"] == ""
	})

	// It begins on this machine from now on, also if all start at the same time.
	for _, s := range c.Servers {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range c.Servers {
		c.Restart(s)
	}
	if tag := moved.Current().Member().Tags["held"]; tag != "" {
		t.Errorf("after a cold start it is held: %q", tag)
	}
	c.Leader()
}

// A server gets another address from DHCP, and is back before the others take it for failed.
func TestIdentity_ARestartAtAnotherAddressKeepsTheVote(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections, func(cfg *server.Config) {
		cfg.Autopilot.CleanupDeadServers = true
		cfg.Autopilot.ServerStabilizationTime = time.Hour // who loses the vote does not get it again
	})
	leader := c.Leader()
	awaitAllVote(t, c)
	moved := c.Others(leader)[0]
	id := peerOf(t, leader, moved, "").ID
	if err := moved.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Move(moved)
	c.Restart(moved)
	c.Await("the leader has it at its new address", func() bool {
		peer := peerOf(t, leader, moved, id)
		if peer == nil || !peer.Voter {
			t.Fatal("it has lost its vote")
		}
		return peer.Address == moved.Current().RPCAddr()
	})
}

// uncountedVote closes a channel when the log says that a vote does not count.
type uncountedVote struct {
	seen chan struct{}
	once sync.Once
}

// Accept implements hclog.SinkAdapter.
func (v *uncountedVote) Accept(_ string, _ hclog.Level, words string, _ ...any) {
	if strings.HasPrefix(words, "a vote does not count: the server lacks") {
		v.once.Do(func() { close(v.seen) })
	}
}

// earlierDisk keeps the disk of a server as it is, and waits until the log of another one says that the
// server has acknowledged entries since. It returns the ID of the server, and a function that puts the disk
// back while the server is off.
func earlierDisk(c *cluster.Cluster, back, other *cluster.Server) (id string, putBack func()) {
	c.T.Helper()
	id = back.Current().Member().Tags["id"]
	earlier := c.T.TempDir()
	if err := errors.Join(back.Kill(), os.CopyFS(earlier, os.DirFS(back.DataDir()))); err != nil {
		c.T.Fatal(err)
	}
	then := c.Leader().Store().Index()
	c.Restart(back)
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("one"))
	c.AwaitRows(other, "the log has what the server has acknowledged since", func(tx *state.ReadTx) bool {
		row := clustertime.Of(tx)
		return row != nil && slices.ContainsFunc(row.Stored, func(s rows.StoredIndex) bool {
			return s.Server == id && s.Index > then
		})
	})
	return id, func() {
		c.T.Helper()
		err := errors.Join(os.RemoveAll(back.DataDir()), os.CopyFS(back.DataDir(), os.DirFS(earlier)))
		if err != nil {
			c.T.Fatal(err)
		}
	}
}

// The disk of a server is put back to an earlier state while no leader can see it. Another server would lead
// with its vote, although both may lack an entry that had a majority.
func TestIdentity_AServerWithAnEarlierDiskGivesNoVote(t *testing.T) {
	t.Parallel()
	uncounted := &uncountedVote{seen: make(chan struct{})}
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard})
	log.RegisterSink(uncounted)
	c := cluster.NewLogged(t, log, 3)
	leader := c.Leader()
	awaitAllVote(t, c)
	back, other := c.Others(leader)[0], c.Others(leader)[1]
	id, putBack := earlierDisk(c, back, other)

	for _, s := range c.Servers { // all are off, and the state of the one that stands for election is an old one
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	putBack()
	c.Restart(back)
	c.Restart(other)
	select {
	case <-uncounted.seen:
	case <-time.After(cluster.Patience):
		t.Fatal("no vote was left out")
	}
	if other.Leads() || back.Leads() {
		t.Error("a server leads with the vote of one that lacks entries")
	}

	c.Restart(leader)
	c.Await("the server was added anew, and votes", func() bool {
		at := c.Leader()
		peer := peerOf(t, at, back, id)
		return peer != nil && peer.Voter
	})
	c.CheckEqualStates()
}

// countingGossip counts the connections that a server opens to one gossip address.
type countingGossip struct {
	memberlist.NodeAwareTransport
	addr   string
	opened *atomic.Int64
}

func (g countingGossip) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if a.Addr == g.addr {
		g.opened.Add(1)
	}
	return g.NodeAwareTransport.DialAddressTimeout(a, timeout)
}

// Without announcements a server opens one connection in 30 seconds, and the others hear of its new address
// as late.
func TestIdentity_AServerAnnouncesItselfUntilALeaderReachesIt(t *testing.T) {
	t.Parallel()
	const announced = 8
	c := cluster.New(t, 3)
	leader := c.Leader()
	moved, other := c.Others(leader)[0], c.Others(leader)[1]
	for _, s := range []*cluster.Server{leader, moved} {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}

	c.Move(moved)
	var opened atomic.Int64
	at := other.Current().Member()
	addr := net.JoinHostPort(at.Addr, strconv.Itoa(int(at.Port)))
	moved.Change(func(cfg *server.Config) {
		whole := cfg.Gossip
		cfg.Gossip = func(n *memberlist.NetTransport) memberlist.NodeAwareTransport {
			return countingGossip{whole(n), addr, &opened}
		}
		// The dead leader keeps them from an election.
		cfg.RaftTimeout = time.Hour
	})
	c.Restart(moved)
	c.Await("it has announced itself again and again", func() bool { return opened.Load() >= announced })

	c.Restart(leader)
	c.Leader()
	c.Await("it has a leader", func() bool {
		_, _, known, _ := moved.Current().Leader()
		return known
	})
}

// One server alone is its own majority.
func TestIdentity_TheOnlyServerStartsOnAnotherMachine(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 1)
	s := c.Leader()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Change(otherMachine)
	c.Restart(s)
	c.Leader()
}

// The disk of a server was put back to an earlier state. It lacks what it has acknowledged, so its vote could
// elect a leader that lacks it, too.
func TestIdentity_ARestoredDiskHasNoVote(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections, func(cfg *server.Config) {
		cfg.Autopilot.ServerStabilizationTime = time.Hour // who loses the vote does not get it again
	})
	leader := c.Leader()
	awaitAllVote(t, c)
	restored := c.Others(leader)[0]
	id := peerOf(t, leader, restored, "").ID
	if err := restored.Kill(); err != nil {
		t.Fatal(err)
	}
	earlier := filepath.Join(t.TempDir(), "earlier")
	if err := os.CopyFS(earlier, os.DirFS(restored.DataDir())); err != nil {
		t.Fatal(err)
	}

	c.Restart(restored)
	c.AddNode("n1", cluster.NewStorage(c)).Kill()
	at := leader.Store().Index()
	c.Await("it has acknowledged entries since", func() bool { return restored.Store().Index() >= at })
	if err := restored.Kill(); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(os.RemoveAll(restored.DataDir()), os.CopyFS(restored.DataDir(), os.DirFS(earlier)))
	if err != nil {
		t.Fatal(err)
	}
	c.Restart(restored)
	c.Await("its vote has ended", func() bool {
		peer := peerOf(t, leader, restored, id)
		return peer != nil && !peer.Voter
	})
	c.Await("it follows without a vote", func() bool { return restored.Store().Index() >= at })
}

// Two of three servers restart at the same time. The third one has no majority meanwhile, and both vote at
// once afterwards.
func TestIdentity_TwoOfThreeRestartAtOnce(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3)
	leader := c.Leader()
	awaitAllVote(t, c)
	restarted := []*cluster.Server{leader, c.Others(leader)[0]}
	for _, s := range restarted {
		kill(t, s)
	}
	for _, s := range restarted {
		c.Restart(s)
	}
	c.Leader()
	for _, s := range restarted {
		if tag := s.Current().Member().Tags["held"]; tag != "" {
			t.Errorf("it is held: %q", tag)
		}
	}
	awaitAllVote(t, c)
}

// All machines are gone, and the disks of two of three servers are in others, one of them from a backup.
// Nobody is left who could add the servers anew, so peers.json is the word of an operator that they are no
// copies, and that they go on with what they have.
func TestIdentity_PeersFileGivesTheVoteOnOtherMachines(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3)
	leader := c.Leader()
	awaitAllVote(t, c)
	restored, other := c.Others(leader)[0], c.Others(leader)[1]
	_, putBack := earlierDisk(c, restored, other)
	var peers []string
	for _, s := range []*cluster.Server{restored, other} {
		peers = append(peers, fmt.Sprintf(`{"id": %q, "address": %q}`, s.Current().Member().Tags["id"],
			s.Current().RPCAddr()))
	}
	kill(t, c.Servers...)
	putBack()
	for _, s := range []*cluster.Server{restored, other} {
		path := filepath.Join(s.DataDir(), "raft", "peers.json")
		err := os.WriteFile(path, []byte("["+strings.Join(peers, ", ")+"]"), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		s.Change(otherMachine)
		c.Restart(s)
	}
	c.Leader()
}
