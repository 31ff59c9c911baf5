package client

import (
	"context"
	"time"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// nodeBatch is the time for which changes of the node itself are gathered before they are sent.
const nodeBatch = 100 * time.Millisecond

// rebuildNode builds the node again and stores it. Its callers take turns.
func (c *Client) rebuildNode() *structs.Node {
	n := c.buildNode()
	c.node.Store(n)
	return n
}

// runDrivers reports to the servers each change of the node by its drivers.
func (c *Client) runDrivers(ctx context.Context) {
	select {
	case <-c.registered:
	case <-ctx.Done():
		return
	}
	for {
		select {
		case <-c.subsystems.Drivers.Changes():
		case <-ctx.Done():
			return
		}
		backoff.Sleep(ctx, nodeBatch)
		for pause := serverRetry; ctx.Err() == nil; {
			err := c.sendNode(ctx)
			if err == nil {
				break
			}
			wait := pause.After(err)
			c.logger.Warn("telling the servers of the node failed", "again_in", wait, "error", err)
			backoff.Sleep(ctx, wait)
		}
	}
}

// sendNode sends the difference between the node and its last acknowledged version, if there is any. An
// error means that the servers did nothing. After any other failure the node registers, which reports all of
// it: also if the servers do not know the request or have another version of the node.
func (c *Client) sendNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, err := c.lockNode(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now := c.rebuildNode()
	if c.lastAcked == nil { // it is about to register
		return nil
	}
	req := structs.NodeChanges(c.lastAcked, now)
	if req == nil {
		return nil
	}
	// else a field has changed that an update does not carry
	if req.Changed(c.lastAcked).Digest() == req.Digest {
		req.Region = c.config.Region
		_, err = rpc.Call(ctx, c.servers, structs.NodeUpdate, req)
		if err == nil {
			c.lastAcked = now
		}
		if err == nil || structs.IsKind(err, structs.KindUnavailable) {
			return err
		}
	}
	c.logger.Info("the servers do not take what changed of the node alone, registering again", "error", err)
	c.lastAcked = nil
	c.inDoubt = c.inDoubt || outcomeUnknown(err)
	notify(c.reregister)
	return nil
}

// outcomeUnknown reports whether the servers may have carried out a request that failed with err, or may
// still do so.
func outcomeUnknown(err error) bool {
	return structs.IsKind(err, structs.KindTimeout) || structs.IsKind(err, structs.KindInternal)
}
