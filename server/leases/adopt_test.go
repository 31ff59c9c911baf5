package leases

import (
	"testing"
	"time"

	"berth/structs"
)

// The log has a registration whose Renew never ran, because its caller had gone.
func TestRun_TakesANodeDownWhoseLeaseNeverBegan(t *testing.T) {
	virtual(t, func(t *testing.T, c *cluster) {
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
	virtual(t, func(t *testing.T, c *cluster) {
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
	virtual(t, func(t *testing.T, c *cluster) {
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
	virtual(t, func(t *testing.T, c *cluster) {
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
