package client

import (
	"context"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// nodeBatch is the time for which changes of the node itself are gathered before they are sent.
const nodeBatch = 100 * time.Millisecond

// runDrivers registers the node again after each change of its drivers, devices and settings. It retries
// until the servers acknowledge it. Heartbeats continue meanwhile.
func (c *Client) runDrivers(ctx context.Context) {
	if !waitClosed(ctx, c.registered) {
		return
	}

	// A nil channel is never ready, so a part that the node does not have has no case below.
	var devices <-chan struct{}
	if c.subsystems.Devices != nil {
		devices = c.subsystems.Devices.Changes()
	}

	var consul <-chan struct{}
	if c.consul != nil {
		consul = c.consul.Changes()
	}

	var vault <-chan struct{}
	if c.subsystems.Vault != nil {
		vault = c.subsystems.Vault.Changes()
	}

	for {
		select {
		case <-c.subsystems.Drivers.Changes():
		case <-devices:
		case <-consul:
		case <-vault:
		case <-c.reloaded:
		case <-ctx.Done():
			return
		}

		if !backoff.Sleep(ctx, nodeBatch) {
			return
		}

		if structs.NodeEqual(c.node.Load(),
			c.buildNode(), structs.IgnoreDriverTimes) {
			continue // the first fingerprint, or a change that has passed
		}

		c.retry(ctx, "failed to register the changed node", c.reregisterNode)
	}
}

// The lease of the answer is dropped: runLease alone stores one.
func (c *Client) reregisterNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.register(ctx)
	return err
}

// outcomeUnknown reports whether the servers may have carried out a request that failed with err, or may
// still do so. An internal error is among them: a server may fail after the entry.
func outcomeUnknown(err error) bool {
	return structs.IsKind(err, structs.KindTimeout) ||
		structs.IsKind(err, structs.KindInternal)
}
