package client

import (
	"cmp"
	"context"

	"berth/client/assembly"
	"berth/client/calls"
	"berth/client/config"
	"berth/client/hooks/disk"
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
		TaskAPI:     c.taskAPI,

		HostVolume: func(name string) *config.HostVolume { return c.config().HostVolume(name) },
		LocalAlloc: c.allocs.local,
		Contacted:  c.contacted,
		Report:     c.allocs.report,
		Lose:       c.allocs.lose,
		Group:      c.allocs.group,
		Clock:      c.clock,
		CheckEpoch: func(epoch uint64) error { return c.lease.Load().CheckCall(epoch, c.clock()) },
		Progress:   c.allocs.setProgress,
		MovedData:  func() disk.Settings { return c.config().MovedData },
	}
}

// newHandler makes the handler of calls for the allocations of this node.
func newHandler(c *Client) *calls.Handler {
	return calls.New(calls.Config{
		Runner:   c.allocs.get,
		AllocDir: c.config().AllocDir(),
		Node:     c.Node,
		Devices:  c.subsystems.Devices,
	})
}
