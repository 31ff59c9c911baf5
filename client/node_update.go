package client

import (
	"context"
	"slices"
	"time"

	"berth/client/config"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/nodecalls"
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

// config returns the configuration in use. The caller must not change it.
func (c *Client) config() *Config { return c.settings.Load() }

// Reload takes over the live settings of a valid configuration (see WithLive) and registers the node again if
// they change it. It keeps all others.
func (c *Client) Reload(next *config.Config) {
	old := c.config()
	now := old.WithLive(next)
	// The pointer is swapped whole, so no loop reads a part of the old settings and a part of the new ones.
	c.settings.Store(now)
	if !slices.Equal(old.Servers, now.Servers) {
		c.servers.Set(now.Servers)
	}
	if c.subsystems.Devices != nil {
		c.subsystems.Devices.SetHost(now.Devices)
	}
	c.warnOfHostVolumes()
	noteChange(c)
}

// noteChange makes the node register again if its settings change it.
func noteChange(c *Client) {
	select {
	case c.reloaded <- struct{}{}:
	default: // runDrivers has not yet seen the last one, and will see this, too
	}
}

// Meta changes the metadata of the node over that of the configuration, if there are changes, and returns all
// of it. The servers see it with the next registration, which follows at once.
func Meta(c *Client, changes map[string]*string) (*nodecalls.NodeMeta, error) {
	static := c.config().Meta
	if len(changes) == 0 {
		return c.meta.Read(static), nil
	}
	defer noteChange(c)
	return c.meta.Apply(static, changes)
}
