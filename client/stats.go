package client

import (
	"context"

	"berth/client/machine/hoststats"
	"berth/structs"
)

// HostStats measures the resource use of this machine, and adds the last statistics of its devices.
func (c *Client) HostStats(ctx context.Context) (*structs.HostStats, error) {
	host := hoststats.Host{
		Dir: c.config().AllocDir(),
		MHz: c.Node().NodeResources.CPU.CpuShares,
	}
	s, err := host.Measure(ctx)
	if err == nil && c.subsystems.Devices != nil {
		s.DeviceStats = c.subsystems.Devices.Stats()
	}
	return s, err
}

// AllocStats measures the running tasks of an allocation on this node, or one of them if task is not "". It
// reads when it is called: nobody measures tasks that nobody asks for. The error is not-found if the
// allocation is not here; see allocrunner.Runner.Stats for the others.
func (c *Client) AllocStats(ctx context.Context, allocID, task string) (*structs.AllocResourceUsage, error) {
	r, err := c.runnerHere(allocID)
	if err != nil {
		return nil, err
	}
	return r.Stats(ctx, task, c)
}

// DeviceStats implements allocrunner.DeviceStats.
func (c *Client) DeviceStats(devices []*structs.AllocatedDeviceResource) []*structs.DeviceGroupStats {
	if c.subsystems.Devices == nil || len(devices) == 0 {
		return nil
	}
	return c.subsystems.Devices.StatsOf(devices)
}
