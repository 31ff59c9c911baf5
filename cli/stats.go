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
	err := newWatch(c).await(ctx, "the answer of node "+shortID(nodeID), seeNode(nodeID), func() (err error) {
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
	c.section("Use of the machine", "CPU|Of its processors|Memory|Of|Up for", grid{{
		fmt.Sprintf("%.0f MHz", s.CPUTicksConsumed),
		percent(used / float64(max(len(s.CPU), 1))),
		mib(s.Memory.Used),
		mib(s.Memory.Total),
		formatSpan(time.Duration(s.Uptime) * time.Second),
	}})
	all := s.DiskStats
	if s.AllocDirStats != nil { // its file system may be on no disk
		all = append(all, s.AllocDirStats)
	}
	var disks grid
	for _, d := range all {
		disks.addRow(d.Mountpoint, d.Device, mib(d.Used), mib(d.Size), percent(d.UsedPercent))
	}
	c.section("Disks", "Mounted on|Device|Used|Size|Full", disks)
	if len(s.DeviceStats) == 0 {
		return nil
	}
	var devices grid
	for _, g := range s.DeviceStats {
		for id, d := range sorted(g.InstanceStats) {
			devices.addRow(g.ID(), id, statText(d.Summary), ago(d.Timestamp))
		}
	}
	c.section("Use of devices", "Group|Device|Statistic|Time", devices)
	return nil
}
