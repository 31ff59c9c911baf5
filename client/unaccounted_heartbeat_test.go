package client

import (
	"testing"
	"time"

	"berth/structs"
)

// A node that the servers wait for comes soon. Its lease, and with it the time that a server has for an answer, is as
// long as ever: the report that it sends may take longer than a short lease would allow.
func TestUnaccountedNode_KeepsItsLeaseAndComesSoon(t *testing.T) {
	c := &Client{pullAnew: make(chan struct{}, 1), reregister: make(chan struct{}, 1), claimCheckDue: make(chan struct{}, 1)}
	answer := &structs.NodeHeartbeatResponse{HeartbeatTTL: time.Minute, Unaccounted: true}
	if ttl := c.leaseLength(answer); ttl != time.Minute {
		t.Errorf("the lease is %s, want a minute", ttl)
	}
	if next := c.untilNextBeat(time.Minute); next != unaccountedTTL {
		t.Errorf("the next heartbeat is sent as for a lease of %s", next)
	}
	answer.Unaccounted = false
	ttl := c.leaseLength(answer)
	if next := c.untilNextBeat(ttl); next != time.Minute {
		t.Errorf("accounted for, the next heartbeat is sent as for a lease of %s", next)
	}
}
