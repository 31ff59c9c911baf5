package client

import (
	"cmp"
	"context"

	"github.com/hashicorp/go-hclog"

	"berth/client/config"
	"berth/client/holds"
	"berth/client/hooks/disk"
	"berth/client/store"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/rpc"
	"berth/structs"
)

// Parts are the inputs of Deps.Build.
type Parts struct {
	Starting context.Context // ends if Build is to give up
	Config   *Config
	Logger   hclog.Logger
	DB       *store.DB
	NodeID   string
	SecretID string
	MHz      int // of the node, over all cores
	Servers  rpc.Caller
	// ServersBack is announced when a heartbeat reaches the servers again after a cut.
	ServersBack *backoff.Recovery
	Consul      Consul // nil: the node uses none
	// Holds knows the allocations that still hold what others are to have.
	Holds *holds.Tracker
	// HostVolume returns the host volume with a name, nil if the node does not have it.
	HostVolume func(name string) *config.HostVolume
	// LocalAlloc finds an allocation on this node.
	LocalAlloc func(allocID string) (disk.Local, bool)
	// Contacted is closed once the servers have sent the allocations of this node: then LocalAlloc knows all of
	// them, also an earlier agent's whose records are lost.
	Contacted <-chan struct{}
	Clock     boottime.Clock // of leases
	// CheckEpoch rejects a call of the servers for an epoch of the node that has ended.
	CheckEpoch func(epoch uint64) error
	// MovedData returns the bounds of data from other nodes.
	MovedData func() disk.Settings
	// Report adds an event to the tasks of an allocation.
	Report func(allocID, message string)
	// Lose ends an allocation that the node must not run any more. It reports false for one without a runner.
	Lose func(allocID, reason string) bool
	// Group returns the present group of an allocation, nil for one without a runner.
	Group func(allocID string) *structs.TaskGroup
	// Progress receives the reason for which the set-up of an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
}

// parts are the inputs of the subsystems.
func (c *Client) parts(starting context.Context) Parts {
	cfg := c.config()
	return Parts{
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
