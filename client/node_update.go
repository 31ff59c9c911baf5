package client

import (
	"context"
	"time"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// nodeBatch is how long changes of the node itself are gathered before they are sent.
const nodeBatch = 100 * time.Millisecond

// rebuildNode puts the node together from what is known and configured now.
func (c *Client) rebuildNode() *structs.Node {
	c.building.Lock() // who built it later has stored it later
	defer c.building.Unlock()
	n := c.buildNode()
	c.node.Store(n)
	return n
}

// runDrivers tells the servers what changes of the node itself, by its drivers or its configuration.
func (c *Client) runDrivers(ctx context.Context) {
	select {
	case <-c.registered:
	case <-ctx.Done():
		return
	}
	for {
		select {
		case <-c.sub.Drivers.Changes():
		case <-c.news:
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

// sendNode sends what differs of the node from what the servers acknowledged last; nothing when nothing does. An
// error says that nothing was done. Whatever else may have become of it, the node registers, which says all: also
// when the servers know no such request, or take it to be of a node that they do not know like this.
func (c *Client) sendNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, err := c.lockNode(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now := c.rebuildNode()
	if c.told == nil { // it is about to register
		return nil
	}
	req := structs.NodeChanges(c.told, now)
	if req == nil {
		return nil
	}
	if req.Changed(c.told).Digest() == req.Digest { // else it has changed in what an update does not carry
		req.Region = c.config.Get().Region
		_, err = rpc.Call(ctx, c.servers, structs.NodeUpdate, req)
		if err == nil {
			c.told = now
		}
		if err == nil || structs.IsKind(err, structs.KindUnavailable) {
			return err
		}
	}
	c.logger.Info("the servers do not take what changed of the node alone, registering again", "error", err)
	c.told, c.unsure = nil, c.unsure || maybeDone(err)
	c.registerAgain()
	return nil
}

// maybeDone reports whether a request that failed so may have been carried out, or may be yet.
func maybeDone(err error) bool {
	return structs.IsKind(err, structs.KindTimeout) || structs.IsKind(err, structs.KindInternal)
}
