package client

import "berth/rpc"

// Caller reaches the servers as the node does: the leader first, another when it does not answer.
func (c *Client) Caller() rpc.Caller { return c.servers }
