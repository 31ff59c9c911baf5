package leases

import (
	"testing"
	"time"

	"berth/state/lease"
	"berth/structs"
)

// The log has a registration whose Renew never ran, because its caller had gone.
func TestRun_TakesANodeDownWhoseLeaseNeverBegan(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		_, stop := c.lead(tenSeconds, 1)
		defer stop()
		c.addNodes(1)
		after(14 * time.Second)
		if c.status() != structs.NodeReady {
			t.Error("the node is down before the longest lease has ended")
		}
		after(3 * time.Second)
		if c.status() != structs.NodeDown {
			t.Error("a silent node without a lease stays up")
		}
	})
}

// The node was deleted, and registered again before its deletion forgot the lease.
func TestRun_TakesANodeDownWhoseLeaseWasForgotten(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		l, stop := c.lead(tenSeconds, 1)
		defer stop()
		c.renew(l)
		l.Forget(structs.DeriveID(0))
		after(14 * time.Second)
		if c.status() != structs.NodeReady {
			t.Error("the node is down while it counts its lease")
		}
		after(3 * time.Second)
		if c.status() != structs.NodeDown {
			t.Error("a silent node without a lease stays up")
		}
	})
}

// The row of a node tells that it is back before its agent calls Renew.
func TestAdopt_LeavesTheNodeToTheFirstAgent(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		l := New(tenSeconds, c.clock)
		l.begin(1)
		l.setTTL(10 * time.Second)
		_, err := l.Renew("n", proofOf("b1", "k", ""))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		l.markedDown(l.expired())
		l.adopt([]string{"n"}, 15*time.Second)
		_, err = l.Renew("n", proofOf("b2", "x", ""))
		if err != nil {
			t.Errorf("the first agent after the lease: %v", err)
		}
		l.adopt([]string{"n"}, 15*time.Second) // it has a lease
		_, err = l.Renew("n", proofOf("b3", "y", ""))
		if structs.CauseOf(err) != structs.CauseSecondAgent {
			t.Errorf("a second agent: %v", err)
		}
	})
}

func TestAdopt_LeavesANodeWhoseEndIsRecorded(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		l := New(tenSeconds, c.clock)
		l.begin(1)
		l.extendAll([]string{"n"}, time.Second)
		time.Sleep(time.Second)
		ended := l.expired()
		l.adopt(ended, time.Minute)
		if l.lasts("n", 0) {
			t.Error("a node that goes down has a lease again")
		}
	})
}

// renewRest renews the lease of the first node, and returns its end with the grace: a next leader has to wait
// for it.
func (c *testCluster) renewRest(l *Leases) time.Duration {
	grant := c.renew(l)
	return grant.LeaseFor + grant.HeartbeatGrace
}

// A leader that has lowered the bound must not grant what the former bound allowed.
func TestAdopt_GrantsNoMoreThanTheBoundOfNow(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		_, stop := c.lead(Config{TTL: time.Minute, Grace: 30 * time.Second}, 1)
		stop()
		l, stop := c.lead(tenSeconds, 2)
		defer stop()
		after(100 * time.Second) // the bound is 15s
		c.addNodes(1)
		after(2 * time.Second)
		if rest := c.renewRest(l); rest > 15*time.Second {
			t.Errorf("the node counts its lease for %s; the bound is %s", rest, lease.Bound(c.Store.Read()))
		}
	})
}

func TestAdopt_KeepsTheBoundUntilItsLeaseHasEnded(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		_, stop := c.lead(Config{TTL: time.Minute, Grace: 30 * time.Second}, 1)
		stop()
		l, stop := c.lead(tenSeconds, 2)
		defer stop()
		after(80 * time.Second) // the bound is lowered after 90s
		c.addNodes(1)
		after(2 * time.Second)
		rest := c.renewRest(l)
		for ; rest > time.Second; rest -= time.Second {
			if bound := lease.Bound(c.Store.Read()); bound < rest {
				t.Fatalf("the bound is %s, and the node counts its lease for %s", bound, rest)
			}
			after(time.Second)
		}
	})
}
