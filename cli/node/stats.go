package node

import (
	"berth/api/operator"
	"context"
	"fmt"
	"time"

	"berth/api/nodes"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/state/clustertime"
	"berth/structs/nodecalls"
)

// printHostStats measures the machine of a node.
func printHostStats(ctx context.Context, c *command.Call, nodeID string) error {
	var s *nodecalls.HostStats
	answer := "the answer of node " + show.ShortID(nodeID)
	err := watch.New(c).Await(ctx, answer, watch.SeeNode(nodeID), func() (err error) {
		s, err = nodes.HostStats(ctx, c.API, nodeID)
		return err
	})
	if err != nil {
		return err
	}

	used := 0.0
	for _, cpu := range s.CPU {
		used += cpu.Total
	}

	c.Section("Use of the machine", "CPU|Of its processors|Memory|Of|Up for|Clock", command.Grid{{
		fmt.Sprintf("%.0f MHz", s.CPUTicksConsumed),
		command.Percent(used / float64(max(len(s.CPU), 1))),
		command.MiB(s.Memory.Used),
		command.MiB(s.Memory.Total),
		show.Span(time.Duration(s.Uptime) * time.Second),
		clockText(ctx, c, s.Timestamp),
	}})

	all := s.DiskStats
	if s.AllocDirStats != nil { // its file system may be on no disk
		all = append(all, s.AllocDirStats)
	}

	var disks command.Grid
	for _, d := range all {
		disks.AddRow(d.Mountpoint, d.Device, command.MiB(d.Used), command.MiB(d.Size),
			command.Percent(d.UsedPercent))
	}

	c.Section("Disks", "Mounted on|Device|Used|Size|Full", disks)
	printDeviceStats(c, s)
	return nil
}

// clockText compares the wall clock of a node with the cluster time. Nothing counts by the clock of a node,
// but its certificate and its logs have that time.
func clockText(ctx context.Context, c *command.Call, now int64) string {
	clocks, _, err := operator.ListClocks(ctx, c.API, nil)
	if err != nil {
		return "not compared"
	}
	ahead := time.Duration(now - clocks.Now)
	switch {
	case !clustertime.Far(ahead):
		return "right"
	case ahead < 0:
		return show.Span(-ahead) + " behind the cluster time"
	}
	return show.Span(ahead) + " ahead of the cluster time"
}

// printDeviceStats prints the measures of the devices. A machine without devices has no section for them.
func printDeviceStats(c *command.Call, s *nodecalls.HostStats) {
	if len(s.DeviceStats) == 0 {
		return
	}

	var devices command.Grid
	for _, g := range s.DeviceStats {
		for id, d := range show.Sorted(g.InstanceStats) {
			devices.AddRow(g.ID(), id, command.StatText(d.Summary), show.Ago(d.Timestamp))
		}
	}

	c.Section("Use of devices", "Group|Device|Statistic|Time", devices)
}
