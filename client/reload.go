package client

import (
	"slices"

	"berth/client/config"
	"berth/structs/nodecalls"
)

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
