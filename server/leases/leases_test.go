package leases

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/lease"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testCluster is the log of some servers and the nodes of their state. Each leader has leases of its own.
type testCluster struct {
	t *testing.T
	*oneserver.Log
	clock boottime.Clock
}

func newCluster(t *testing.T) *testCluster {
	return &testCluster{t, oneserver.NewLog(), boottime.Monotonic()}
}

// running counts the leases that run.
func running(l *Leases) (count int) {
	for _, n := range l.nodes {
		if n.runs() {
			count++
		}
	}
	return count
}

// addNodes adds nodes to the state, in one transaction.
func (c *testCluster) addNodes(n int) {
	c.t.Helper()
	c.Write(c.t, func(tx *state.WriteTx) error {
		for i := range n {
			id := structs.DeriveID(uint64(i))
			err := state.NodeRegister(tx, &structs.NodeRegisterRequest{
				Node: &structs.Node{ID: id, Name: id, SecretID: id, Status: structs.NodeReady},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// status returns the status of the first node.
func (c *testCluster) status() string {
	return state.Node(c.Store.Read(), structs.DeriveID(0)).Status
}

// lead makes leases with a configuration lead in a term. stop ends the leadership, as a crash does: nothing
// of it is left but the log.
func (c *testCluster) lead(config Config, term uint64) (l *Leases, stop func()) {
	l = New(config, c.clock)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx, Deps{
			Common: loop.Common{
				Store:    c.Store,
				Proposer: c,
				Logger:   hclog.NewNullLogger(),
			},
			Term: term,
		})
	}()
	synctest.Wait()
	return l, func() { cancel(); <-ended }
}

// renew renews the lease of the first node.
func (c *testCluster) renew(l *Leases) structs.LeaseGrant {
	c.t.Helper()
	grant, err := l.Renew(structs.DeriveID(0), proofOf("b1", "k", ""))
	if err != nil {
		c.t.Fatal(err)
	}
	return grant
}

func virtual(t *testing.T, test func(t *testing.T, c *testCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newCluster(t))
	})
}

// after lets virtual time pass and everything that is due happen.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var tenSeconds = Config{TTL: 10 * time.Second, Grace: 5 * time.Second}

func TestRenew_GrantsNothingWithoutALeadership(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		never := New(tenSeconds, c.clock)
		former, stop := c.lead(tenSeconds, 3)
		if grant := c.renew(former); grant.LeaseTerm != 3 || grant.HeartbeatTTL != 10*time.Second ||
			grant.HeartbeatGrace != 5*time.Second {
			t.Errorf("the leader granted %+v", grant)
		}
		stop()
		for name, l := range map[string]*Leases{"never led": never, "led before": former} {
			grant, err := l.Renew(structs.DeriveID(0), proofOf("b1", "k", ""))
			if !structs.IsKind(err, structs.KindUnavailable) || grant.HeartbeatTTL != 0 || running(l) != 0 {
				t.Errorf("a server that %s granted %+v, %v, and keeps %d leases", name, grant, err, running(l))
			}
		}
	})
}

// A leader writes down how long its leases last before it grants the first one.
func TestRun_GrantsNothingBeforeTheBoundIsRecorded(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		c.Fail(structs.Unavailablef("no quorum"), fsm.LeaseBoundSet.CommandInfo)
		l, stop := c.lead(tenSeconds, 1)
		defer stop()
		after(time.Minute)
		_, err := l.Renew(structs.DeriveID(0), proofOf("b1", "k", ""))
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("a lease was granted without a bound: %v", err)
		}

		c.Fail(nil, fsm.LeaseBoundSet.CommandInfo)
		after(time.Second)
		c.renew(l)
		if bound := lease.Bound(c.Store.Read()); bound != 15*time.Second {
			t.Errorf("the bound is %s, want 15s", bound)
		}
	})
}

// The next leader has another setting, or counts another number of nodes.
func TestRun_EndsNoLeaseThatAnEarlierLeaderMayHaveGranted(t *testing.T) {
	fleet := Config{TTL: 10 * time.Second, Grace: 5 * time.Second, MaxPerSecond: 1000}
	for name, test := range map[string]struct {
		nodes       int
		first, next Config
		ttl         time.Duration // that the first leader grants
	}{
		"a shorter setting": {
			nodes: 1,
			first: Config{TTL: time.Minute, Grace: 30 * time.Second},
			next:  tenSeconds,
			ttl:   time.Minute,
		},
		"a shorter grace": {
			nodes: 1,
			first: Config{TTL: 10 * time.Second, Grace: time.Minute},
			next:  tenSeconds,
			ttl:   10 * time.Second,
		},
		"20,000 nodes": {nodes: 20_000, first: fleet, next: fleet, ttl: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, c *testCluster) {
				c.addNodes(test.nodes)
				leader, stop := c.lead(test.first, 1)
				if grant := c.renew(leader); grant.HeartbeatTTL != test.ttl {
					t.Errorf("the first leader granted %s, want %s", grant.HeartbeatTTL, test.ttl)
				}
				stop()

				_, stop = c.lead(test.next, 2)
				defer stop()
				after(test.ttl + test.first.Grace - time.Second)
				if c.status() != structs.NodeReady {
					t.Error("the next leader ended a lease that the node still counts")
				}
				after(2 * time.Second)
				if c.status() != structs.NodeDown {
					t.Error("the next leader did not end the lease")
				}
			})
		})
	}
}

// The answer with the shorter lease may be lost.
func TestRenew_NeverShortensALease(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		long := Config{TTL: time.Minute, Grace: 5 * time.Second}
		leader, stop := c.lead(long, 1)
		c.renew(leader)
		stop()

		leader, stop = c.lead(tenSeconds, 2)
		defer stop()
		c.renew(leader)
		after(64 * time.Second)
		if c.status() != structs.NodeReady {
			t.Error("a renewal shortened a lease")
		}
	})
}

// The log of a cluster that grows has the longer lease before a node has it.
func TestRun_RaisesTheBoundFirst(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		fleet := Config{TTL: 10 * time.Second, Grace: 5 * time.Second, MaxPerSecond: 10}
		l, stop := c.lead(fleet, 1)
		defer stop()
		c.addNodes(500)
		c.Fail(structs.Unavailablef("no quorum"), fsm.LeaseBoundSet.CommandInfo)
		after(5 * time.Second)
		if grant := c.renew(l); grant.HeartbeatTTL != 10*time.Second {
			t.Errorf("a lease of %s was granted, the bound is %s",
				grant.HeartbeatTTL, lease.Bound(c.Store.Read()))
		}
		c.Fail(nil, fsm.LeaseBoundSet.CommandInfo)
		after(5 * time.Second)
		if grant := c.renew(l); grant.HeartbeatTTL != 50*time.Second {
			t.Errorf("a lease of %s was granted to one of 500 nodes at 10 heartbeats a second, want 50s",
				grant.HeartbeatTTL)
		}
	})
}

func TestRun_LowersTheBoundWhenTheLastLongerLeaseHasEnded(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		_, stop := c.lead(Config{TTL: time.Minute, Grace: 30 * time.Second}, 1)
		stop()
		_, stop = c.lead(tenSeconds, 2)
		defer stop()
		after(90*time.Second - time.Millisecond)
		if bound := lease.Bound(c.Store.Read()); bound != 90*time.Second {
			t.Errorf("the bound is %s while a lease of 90s may last", bound)
		}
		after(2 * time.Second)
		if bound := lease.Bound(c.Store.Read()); bound != 15*time.Second {
			t.Errorf("the bound is %s, want 15s", bound)
		}
	})
}

// An archive has the bound of the cluster from which it is.
func TestRun_RecordsTheBoundAgainAfterItWasReplaced(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		_, stop := c.lead(tenSeconds, 1)
		defer stop()
		_, err := fsm.Propose(t.Context(), c, fsm.LeaseBoundSet,
			&cluster.LeaseBoundRequest{Longest: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		after(countEvery + expiredTogether)
		if bound := lease.Bound(c.Store.Read()); bound != 15*time.Second {
			t.Errorf("the bound is %s, want 15s", bound)
		}
	})
}

// A clock that counts a suspend ends leases whose timers of Go have hours left.
func TestRun_EndsLeasesAfterASuspend(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		var suspended atomic.Int64
		awake := c.clock
		c.clock = func() boottime.Instant { return awake().Add(time.Duration(suspended.Load())) }
		_, stop := c.lead(Config{TTL: 10 * time.Hour, Grace: time.Hour}, 1)
		defer stop()
		suspended.Store(int64(11 * time.Hour))
		after(2 * expiredTogether)
		if c.status() != structs.NodeDown {
			t.Error("the lease did not end during the suspend")
		}
	})
}

// A node that heartbeats while the entry that takes it down is in flight would count a lease beside the next
// writer of its volumes.
func TestRenew_GrantsNothingWhileTheEndIsRecorded(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		l := New(Config{TTL: 10 * time.Second}, c.clock)
		l.begin(1)
		l.setTTL(10 * time.Second)
		renew := func() error {
			_, err := l.Renew("n", proofOf("b1", "k", ""))
			return err
		}
		err := renew()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		for range 2 {
			nodes := l.expired()
			if !slices.Equal(nodes, []string{"n"}) {
				t.Fatalf("%v expire", nodes)
			}
			err = renew() // while the entry is in flight
			if !structs.IsKind(err, structs.KindUnavailable) {
				t.Errorf("a renewal while the entry is in flight: %v", err)
			}
			l.retain(nodes, c.clock().Add(time.Second)) // its outcome is not known
			err = renew()
			if !structs.IsKind(err, structs.KindUnavailable) {
				t.Errorf("a renewal after an unknown outcome: %v", err)
			}
			time.Sleep(time.Second)
		}
		l.markedDown(l.expired())
		err = renew()
		if err != nil {
			t.Errorf("a renewal of a node that is back: %v", err)
		}
	})
}

// An operator may order a longer lease while the end of the usual one is recorded.
func TestRetain_KeepsALongerLease(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		l := New(Config{TTL: 10 * time.Second}, c.clock)
		l.begin(1)
		err := l.Extend("n", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		l.retain([]string{"n"}, c.clock().Add(time.Second))
		time.Sleep(time.Minute)
		nodes := l.expired()
		if len(nodes) > 0 || !l.lasts("n", 58*time.Minute) {
			t.Errorf("%v expire", nodes)
		}
	})
}

// during is a cluster that calls a function while the entry that marks nodes down is in flight.
type during struct {
	*testCluster
	entry func()
}

// Propose implements fsm.Proposer.
func (d *during) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	if fsm.CommandOf(entry) == fsm.NodeStatus.CommandInfo {
		d.entry()
	}
	return d.testCluster.Propose(ctx, entry)
}

func TestRun_GrantsNoLeaseToANodeThatItTakesDown(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		l := New(Config{TTL: 30 * time.Second, Grace: 10 * time.Second}, c.clock)
		granted := 0
		d := &during{testCluster: c, entry: func() {
			_, err := l.Renew(structs.DeriveID(0), proofOf("b1", "k", ""))
			if err == nil {
				granted++
			}
		}}
		lead := l.Lead(Deps{
			Common: loop.Common{Store: c.Store, Proposer: d, Logger: hclog.NewNullLogger()},
			Term:   1,
		})
		for range 300 {
			lead.Step(t.Context())
			time.Sleep(expiredTogether)
		}
		if granted > 0 || c.status() != structs.NodeDown {
			t.Errorf("the node is %s and got %d leases", c.status(), granted)
		}
		_, err := l.Renew(structs.DeriveID(0), proofOf("b1", "k", ""))
		if err != nil {
			t.Errorf("a renewal after the entry: %v", err)
		}
	})
}

// The loss of a whole site takes few entries, and none of it is forgotten while the log is down.
func TestMarkDown_BoundsTheNodesOfAnEntry(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		nodes := make([]string, 2*mostDown+1)
		for i := range nodes {
			nodes[i] = structs.DeriveID(uint64(i))
		}
		l := New(tenSeconds, c.clock)
		l.begin(1)
		r := l.Lead(Deps{Common: loop.Common{Store: c.Store, Proposer: c, Logger: hclog.NewNullLogger()}})
		before := c.Len()
		r.markDown(t.Context(), nodes)
		if n := c.Len() - before; n != 3 {
			t.Errorf("%d entries for %d nodes", n, len(nodes))
		}

		c.Fail(structs.Unavailablef("no quorum"), fsm.NodeStatus.CommandInfo)
		r.markDown(t.Context(), nodes)
		time.Sleep(time.Minute)
		if again := l.expired(); len(again) != len(nodes) {
			t.Errorf("%d of %d leases expire again", len(again), len(nodes))
		}
	})
}

func TestConfig_TenThousandNodesHaveTheConfiguredTTL(t *testing.T) {
	c := Config{TTL: 10 * time.Second, MaxPerSecond: 1000}
	for nodes, want := range map[int]time.Duration{
		0:      10 * time.Second,
		10_000: 10 * time.Second,
		20_000: 20 * time.Second,
	} {
		if got := c.ttl(nodes); got != want {
			t.Errorf("%s with %d nodes, want %s", got, nodes, want)
		}
	}
	if got := (Config{TTL: 10 * time.Second}).ttl(1_000_000); got != 10*time.Second {
		t.Errorf("%s without a bound on heartbeats", got)
	}
}
