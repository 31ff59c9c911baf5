package leases

import (
	"context"
	"testing"
	"time"

	"berth/fsm"
	"berth/state/lease"
	"berth/structs"
	"berth/structs/cluster"
)

// order orders a longer lease for the first node, as package endpoints does: it is in the log first.
func (c *testCluster) order(l *Leases, lease time.Duration) {
	c.t.Helper()
	length, err := l.Length(lease)
	if err != nil {
		c.t.Fatal(err)
	}
	id := structs.DeriveID(0)
	req := &cluster.NodeLeaseRequest{NodeID: id, Length: length}
	_, err = fsm.Propose(context.Background(), c, fsm.NodeLeaseSet, req)
	if err != nil {
		c.t.Fatal(err)
	}
	err = l.Extend(id, length)
	if err != nil {
		c.t.Fatal(err)
	}
}

// longer returns the number of longer leases in the log.
func (c *testCluster) longer() (count int) {
	for range lease.NodeLeases(c.Store.Read()) {
		count++
	}
	return count
}

var withLonger = Config{TTL: 10 * time.Second, Grace: 5 * time.Second, Longest: 10 * time.Minute}

func TestExtend_KeepsANodeAliveWithoutHeartbeats(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		l, stop := c.lead(withLonger, 1)
		defer stop()
		c.order(l, 5*time.Minute)
		if grant := c.renew(l); grant.LeaseFor != 5*time.Minute || grant.HeartbeatTTL != 10*time.Second {
			t.Errorf("the node may act alone for %s with a heartbeat each %s; want 5m0s and 10s",
				grant.LeaseFor, grant.HeartbeatTTL)
		}
		after(5*time.Minute + 4*time.Second)
		if c.status() != structs.NodeReady {
			t.Error("the node is down before its longer lease and the grace have ended")
		}
		after(2 * time.Second)
		if c.status() != structs.NodeDown || c.longer() != 0 {
			t.Errorf("after its end the node is %s, and the log has %d longer leases", c.status(), c.longer())
		}
	})
}

func TestExtend_HoldsUnderTheNextLeader(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		l, stop := c.lead(withLonger, 1)
		c.order(l, 5*time.Minute)
		stop()

		_, stop = c.lead(tenSeconds, 2)
		defer stop()
		after(5*time.Minute + 4*time.Second)
		if c.status() != structs.NodeReady {
			t.Error("the next leader ended a lease that the node still counts")
		}
		after(2 * time.Second)
		if c.status() != structs.NodeDown {
			t.Error("the next leader did not end the lease")
		}
	})
}

// A node that is back sends heartbeats again, and then its usual lease ends last.
func TestRun_DeletesALongerLeaseThatHasEnded(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.addNodes(1)
		l, stop := c.lead(withLonger, 1)
		defer stop()
		c.order(l, time.Minute)
		for range 9 {
			after(5 * time.Second)
			c.renew(l)
		}
		if c.longer() != 1 {
			t.Error("the longer lease is not in the log any more, and it has not ended")
		}
		for range 4 {
			after(5 * time.Second)
			c.renew(l)
		}
		if c.longer() != 0 {
			t.Error("the longer lease is in the log, and it has ended")
		}
		if grant := c.renew(l); grant.LeaseFor != 10*time.Second {
			t.Errorf("the node may act alone for %s, want 10s", grant.LeaseFor)
		}
	})
}

func TestLength_IsBounded(t *testing.T) {
	l := New(withLonger, nil)
	for _, ordered := range []time.Duration{0, -time.Second, 10*time.Minute + 1} {
		_, err := l.Length(ordered)
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("a lease of %s: %v, want invalid", ordered, err)
		}
	}
	length, err := l.Length(10 * time.Minute)
	if err != nil || length != 10*time.Minute+5*time.Second {
		t.Errorf("got %s, %v; want the lease and the grace", length, err)
	}
	err = l.Extend("n1", length)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a server that does not lead extended a lease: %v", err)
	}
}
