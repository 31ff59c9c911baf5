package client

import (
	"cmp"
	"context"
	"time"

	"berth/client/allocrunner"
	"berth/client/assembly"
	"berth/client/config"
	"berth/client/handover"
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
		MHz:      cmp.Or(cfg.CPUTotalCompute, int(c.registration.facts.Resources.CPU.CpuShares)),
		Servers:  c.servers,
		Consul:   c.consul,
		Holds:    c.work.holds,

		MarkClaims:  c.registration.markClaims,
		ServersBack: &c.serversBack,
		TaskAPI:     c.taskAPI,

		HostVolume: func(name string) *config.HostVolume { return c.config().HostVolume(name) },
		LocalAlloc: c.work.allocs.local,
		Contacted:  c.contacted,
		Report:     c.work.allocs.report,
		Lose:       c.work.allocs.lose,
		Group:      c.work.allocs.group,
		Clock:      c.clock,
		CheckEpoch: func(epoch uint64) error { return c.registration.lease.Load().CheckCall(epoch, c.clock()) },
		Progress:   c.work.allocs.setProgress,
		MovedData:  func() disk.Settings { return c.config().MovedData },
	}
}

// markClaims draws the mark that goes into the log with claims. It waits until the servers have accepted this
// agent: one on a copied disk claims nothing.
func (reg *registration) markClaims(ctx context.Context) error {
	select {
	case <-reg.registered:
		return reg.proof.MarkClaims()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// makeCalls makes what serves the calls for the allocations of this node.
func makeCalls(c *Client) *allocCalls {
	return newAllocCalls(callConfig{
		Runner:   c.work.allocs.get,
		AllocDir: c.config().AllocDir(),
		Node:     c.Node,
		Devices:  c.subsystems.Devices,
	})
}

// makeHolds makes what knows the allocations that others wait for.
func (w *work) makeHolds() {
	w.holds = handover.NewTracker(handover.TrackerConfig{
		Allocs: w.allocs.held,
		Find: func(allocID string) handover.Alloc {
			if r := w.allocs.get(allocID); r != nil {
				return r
			}
			return nil // a nil Runner in an interface would not be nil
		},
		Node:     w.registration.row.Load,
		Restored: w.restored,
	})

	w.data = handover.NewData(handover.DataConfig{
		NodeID:   w.id.NodeID,
		SecretID: w.id.SecretID,
		Region:   w.config().Region,
		Servers:  w.servers,
		Allocs:   w.allocs.held,
		Keep:     func() time.Duration { return w.config().MovedData.Keep },
	})
}

// asAllocs makes the interface values one by one: Go converts no slices.
func asAllocs(runners []*allocrunner.Runner) []handover.Alloc {
	all := make([]handover.Alloc, len(runners))
	for i, r := range runners {
		all[i] = r
	}
	return all
}
