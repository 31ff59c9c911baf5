package client

import (
	"time"

	"berth/rpc"
	"berth/structs"
)

// ServersContacted is closed once the servers have sent the allocations of this node.
func (c *Client) ServersContacted() <-chan struct{} { return c.contacted }

// Registered is closed once the node has registered.
func (c *Client) Registered() <-chan struct{} { return c.registered }

// Servers returns the servers' addresses in the order in which the node tries them.
func (c *Client) Servers() []string {
	return c.servers.All()
}

// Lease returns the length of the lease that the servers granted last, and the time since its request. The
// length is 0, and the time is that since the start, if they have granted none.
func (c *Client) Lease() (ttl, age time.Duration) {
	l := c.lease.Load()
	return l.TTL, c.clock().Sub(l.Since)
}

// Caller calls the servers as the node does: the leader first, another server if it does not answer.
func (c *Client) Caller() rpc.Caller { return c.servers }

// Allocs returns the states of the allocations on this node, as the node reports them to the servers.
func (c *Client) Allocs() map[string]*structs.AllocClientUpdate {
	m := map[string]*structs.AllocClientUpdate{}
	for _, r := range c.allocs.all() {
		m[r.ID()] = r.ClientState()
	}
	return m
}
