package client

import (
	"cmp"
	"context"

	"berth/client/assembly"
	"berth/client/calls"
	"berth/client/config"
	"berth/client/hooks/disk"
	"berth/structs"
)

// parts are the inputs of the subsystems.
func (c *Client) parts(starting context.Context) assembly.Parts {
	cfg := c.config()
	return assembly.Parts{
		Starting: starting,
		Config:   cfg,
		Logger:   c.logger,
		DB:       c.db,
		NodeID:   c.id.NodeID,
		SecretID: c.id.SecretID,
		MHz:      cmp.Or(cfg.CPUTotalCompute, int(c.facts.Resources.CPU.CpuShares)),
		Servers:  c.servers,
		Consul:   c.consul,
		Holds:    c.holds,

		ServersBack: &c.serversBack,

		HostVolume: func(name string) *config.HostVolume { return c.config().HostVolume(name) },
		LocalAlloc: c.localAlloc,
		Contacted:  c.contacted,
		Report:     c.report,
		Lose:       func(id, reason string) bool { return loseAlloc(c, id, reason) },
		Group:      func(id string) *structs.TaskGroup { return presentGroup(c, id) },
		Clock:      c.clock,
		CheckEpoch: func(epoch uint64) error { return c.lease.Load().CheckCall(epoch, c.clock()) },
		Progress:   c.setProgress,
		MovedData:  func() disk.Settings { return c.config().MovedData },
	}
}

// loseAlloc ends an allocation that the node must not run any more, if it has a runner.
func loseAlloc(c *Client, allocID, reason string) bool {
	r := c.runner(allocID)
	if r != nil {
		r.Lose(reason)
	}
	return r != nil
}

// presentGroup returns the group of an allocation as the last update left it, nil for one without a runner.
func presentGroup(c *Client, allocID string) *structs.TaskGroup {
	if r := c.runner(allocID); r != nil {
		return r.Alloc().Job.Group(r.Alloc().TaskGroup)
	}
	return nil
}

// newHandler makes the handler of calls for the allocations of this node.
func newHandler(c *Client) *calls.Handler {
	return calls.New(calls.Config{
		Runner:   c.runner,
		AllocDir: c.config().AllocDir(),
		Node:     c.Node,
		Devices:  c.subsystems.Devices,
	})
}
