package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/structs"
)

var statsFlag = Flag{Name: "stats", Usage: "Also measure the use of resources now"}

// checkStats rejects -stats where it would have no effect.
func checkStats(c *Call) error {
	switch {
	case c.Bool("stats") && c.Arg(0) == "":
		return badUsage("-stats measures one, and not a list: name it")
	case c.Bool("stats") && (c.Bool("json") || c.String("t") != ""):
		return badUsage("-stats excludes -json and -t; the paths /v1/client of the HTTP API have the numbers")
	}
	return nil
}

// mib formats bytes in MiB.
func mib(bytes uint64) string {
	return fmt.Sprintf("%d MiB", bytes>>20)
}

func percent(share float64) string {
	return fmt.Sprintf("%.1f %%", share)
}

// printHostStats measures the machine of a node.
func printHostStats(ctx context.Context, c *Call, nodeID string) error {
	var s *structs.HostStats
	err := c.await(ctx, "the answer of node "+shortID(nodeID), seeNode(nodeID), func() (err error) {
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

// printAllocStats measures the running tasks of an allocation.
func printAllocStats(ctx context.Context, c *Call, allocID string) error {
	var s *structs.AllocResourceUsage
	err := c.await(ctx, nodeOfAlloc(allocID), c.seeAlloc(allocID), func() (err error) {
		s, err = c.API.AllocStats(ctx, allocID, "")
		return err
	})
	if err != nil {
		return err
	}
	var rows grid
	for name, t := range sorted(s.Tasks) {
		u := t.ResourceUsage
		rows.addRow(
			name,
			measuredText(u.CpuStats.Measured, "Total Ticks", fmt.Sprintf("%.0f MHz", u.CpuStats.TotalTicks)),
			measuredText(u.CpuStats.Measured, "Percent", percent(u.CpuStats.Percent)),
			measuredText(u.MemoryStats.Measured, "RSS", mib(u.MemoryStats.RSS)),
			measuredText(u.MemoryStats.Measured, "Max Usage", mib(u.MemoryStats.MaxUsage)),
			deviceSummary(u.DeviceStats),
		)
	}
	c.section("Use of resources", "Task|CPU|Of a processor|Memory|Highest|Devices", rows)
	if len(s.Unmeasured) == 0 {
		return nil
	}
	var failed grid
	for name, reason := range sorted(s.Unmeasured) {
		failed.addRow(name, reason)
	}
	c.section("Not measured", "Task|Reason", failed)
	return nil
}

// measuredText returns the text of a value, "" if it is not among the measured ones.
func measuredText(measured []string, name, text string) string {
	if !slices.Contains(measured, name) {
		return ""
	}
	return text
}

// deviceSummary lists the devices of a task with their main statistic.
func deviceSummary(groups []*structs.DeviceGroupStats) string {
	var all []string
	for _, g := range groups {
		for id, d := range sorted(g.InstanceStats) {
			all = append(all, strings.TrimSpace(g.ID()+" "+id+" "+statText(d.Summary)))
		}
	}
	return strings.Join(all, ", ")
}

// statText formats one statistic.
func statText(v *structs.StatValue) string {
	switch {
	case v == nil:
		return ""
	case v.IntNumeratorVal != nil && v.IntDenominatorVal != nil:
		return fmt.Sprintf("%d/%d %s", *v.IntNumeratorVal, *v.IntDenominatorVal, v.Unit)
	case v.IntNumeratorVal != nil:
		return fmt.Sprintf("%d %s", *v.IntNumeratorVal, v.Unit)
	case v.FloatNumeratorVal != nil && v.FloatDenominatorVal != nil:
		return fmt.Sprintf("%g/%g %s", *v.FloatNumeratorVal, *v.FloatDenominatorVal, v.Unit)
	case v.FloatNumeratorVal != nil:
		return fmt.Sprintf("%g %s", *v.FloatNumeratorVal, v.Unit)
	case v.StringVal != nil:
		return *v.StringVal
	case v.BoolVal != nil:
		return yesNo(*v.BoolVal)
	}
	return ""
}
