package client

import (
	"context"
	"maps"
	"time"

	"berth/client/allocrunner"
	"berth/client/machine/cni"
	"berth/client/machine/networks"
	"berth/structs"
)

// readNetworks finds the host networks of this machine, once: jobs have their addresses.
func (c *Client) readNetworks() error {
	cfg := c.config()
	found, err := networks.Read(networks.Config{
		Interface: cfg.NetworkInterface,
		Networks:  cfg.HostNetworks,
		Exclude:   cfg.BridgeName,
	})
	if err != nil {
		return err
	}
	c.networks = found.Links
	c.findModes()
	for _, name := range found.Missing {
		c.logger.Warn("host network has no address on this machine", "host_network", name)
	}
	if found.LeftOut > 0 {
		c.logger.Warn("too many addresses in host networks, leaving out some", "left_out", found.LeftOut)
	}
	return nil
}

// findTimeout bounds the look for the plugins of networks.
const findTimeout = 20 * time.Second

// findModes finds the networks of allocations that this node has, once.
func (c *Client) findModes() {
	ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
	defer cancel()
	cfg := c.config()
	found := cni.New(cfg.Settings, cfg.NetworkDir()).Find(ctx)
	room := structs.MaxNodeAddresses - len(c.networks)
	c.networks = append(c.networks, found.Modes[:min(len(found.Modes), room)]...)
	maps.Copy(c.facts.Attributes, found.Attributes)
	if found.NoBridge != nil {
		c.logger.Info("no network with mode bridge on this node", "reason", found.NoBridge)
	}
	for _, err := range found.Faults {
		c.logger.Warn("leaving out a network", "error", err)
	}
}

// setPorts adds the networks and ports of the node to its row.
func (c *Client) setPorts(n *structs.Node) {
	cfg := c.config()
	n.NodeResources.NodeNetworks = c.networks
	n.NodeResources.MinDynamicPort = cfg.MinDynamicPort
	n.NodeResources.MaxDynamicPort = cfg.MaxDynamicPort
	if ports := cfg.ReservedPorts(); ports != "" {
		n.ReservedResources.Networks = &structs.NodeReservedNetworks{ReservedHostPorts: ports}
	}
}

// portHolder returns an allocation on this node that has not ended and has one of the ports of a (see
// othersOf).
func (c *Client) portHolder(a *structs.Allocation) (allocID string) {
	others := structs.PortUse{}
	for _, r := range c.othersOf(a) {
		others.Add(r.Alloc())
	}
	return others.Holder(a)
}

// othersOf returns the runners of the allocations on this node that have not ended and from which the servers
// may have given something to a: those that are older than a, or that end. After a return of the servers to
// an earlier state their indexes begin below those of the allocations that this node ends.
func (c *Client) othersOf(a *structs.Allocation) []*allocrunner.Runner {
	var others []*allocrunner.Runner
	for _, r := range c.allRunners() {
		other := r.Alloc()
		if other.ID != a.ID &&
			(other.CreateIndex <= a.CreateIndex || r.Stopping()) &&
			c.allocRunning(other.ID) {
			others = append(others, r)
		}
	}
	return others
}
