package cli

import (
	"context"
	"fmt"
	"time"

	"berth/structs"
)

// printHostStats measures the machine of a node.
func printHostStats(ctx context.Context, c *Call, nodeID string) error {
	var s *structs.HostStats
	err := New(c).Await(ctx, "the answer of node "+ShortID(nodeID), SeeNode(nodeID), func() (err error) {
		s, err = c.API.HostStats(ctx, nodeID)
		return err
	})
	if err != nil {
		return err
	}
	used := 0.0
	for _, cpu := range s.CPU {
		used += cpu.Total
	}
	c.Section("Use of the machine", "CPU|Of its processors|Memory|Of|Up for", Grid{{
		fmt.Sprintf("%.0f MHz", s.CPUTicksConsumed),
		Percent(used / float64(max(len(s.CPU), 1))),
		MiB(s.Memory.Used),
		MiB(s.Memory.Total),
		FormatSpan(time.Duration(s.Uptime) * time.Second),
	}})
	all := s.DiskStats
	if s.AllocDirStats != nil { // its file system may be on no disk
		all = append(all, s.AllocDirStats)
	}
	var disks Grid
	for _, d := range all {
		disks.AddRow(d.Mountpoint, d.Device, MiB(d.Used), MiB(d.Size), Percent(d.UsedPercent))
	}
	c.Section("Disks", "Mounted on|Device|Used|Size|Full", disks)
	if len(s.DeviceStats) == 0 {
		return nil
	}
	var devices Grid
	for _, g := range s.DeviceStats {
		for id, d := range Sorted(g.InstanceStats) {
			devices.AddRow(g.ID(), id, StatText(d.Summary), Ago(d.Timestamp))
		}
	}
	c.Section("Use of devices", "Group|Device|Statistic|Time", devices)
	return nil
}
