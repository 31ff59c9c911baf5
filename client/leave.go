package client

import (
	"context"

	"berth/client/leaving"
)

// Leave drains the node before its agent stops, if the configuration has drain_on_shutdown. Run continues
// meanwhile. Leave ends with ctx; package leaving has the other bounds.
func (c *Client) Leave(ctx context.Context) {
	cfg := c.config().DrainOnShutdown
	if cfg != nil {
		c.departure().Leave(ctx, *cfg)
	}
}

func (c *Client) departure() *leaving.Node {
	return &leaving.Node{
		ID:       c.id.NodeID,
		SecretID: c.id.SecretID,
		Region:   c.config().Region,
		Servers:  c.servers,
		Logger:   c.logger,
		Begin:    c.beginLeave,
	}
}

// beginLeave keeps a first registration that is still to come, or to be answered, from ending the drain.
func (c *Client) beginLeave(ctx context.Context) error {
	unlock, err := c.lockNode(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c.leaves = true
	return nil
}

// comeBack ends the drain of the last shutdown. It returns an error only if the call may be repeated: no
// other one keeps the node from its registration. The caller has locked the node.
func (c *Client) comeBack(ctx context.Context) error {
	if c.leaves || isClosed(c.registered) {
		return nil
	}
	err := c.departure().Return(ctx)
	if err != nil && !leaving.MayPass(err) {
		c.logger.Error("failed to end the drain of the last shutdown; "+
			"the node takes no allocations before berth node eligibility -enable", "error", err)
		return nil
	}
	return err
}
