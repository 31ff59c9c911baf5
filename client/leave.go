package client

import (
	"context"

	"berth/client/membership/leaving"
)

// Leave drains the node before its agent stops, if the configuration has drain_on_shutdown. Run continues
// meanwhile. Leave ends with ctx; package leaving has the other bounds.
func (c *Client) Leave(ctx context.Context) {
	cfg := c.config().DrainOnShutdown
	if cfg != nil {
		c.departure.Leave(ctx, cfg)
	}
}

// Its request writes the row of the node, so it takes turns with registrations.
func newDeparture(c *Client) *leaving.Node {
	return &leaving.Node{
		ID:       c.id.NodeID,
		SecretID: c.id.SecretID,
		Region:   c.config().Region,
		Servers:  c.servers,
		Logger:   c.logger,
		Lock:     c.lockNode,
	}
}
