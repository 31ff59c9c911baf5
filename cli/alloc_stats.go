package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/structs"
)

// printAllocStats measures the running tasks of an allocation.
func printAllocStats(ctx context.Context, c *Call, allocID string) error {
	var s *structs.AllocResourceUsage
	err := New(c).Await(ctx, nodeOfAlloc(allocID), SeeAlloc(c, allocID), func() (err error) {
		s, err = c.API.AllocStats(ctx, allocID, "")
		return err
	})
	if err != nil {
		return err
	}
	var rows Grid
	for name, t := range Sorted(s.Tasks) {
		u := t.ResourceUsage
		rows.AddRow(
			name,
			measuredText(u.CpuStats.Measured, "Total Ticks", fmt.Sprintf("%.0f MHz", u.CpuStats.TotalTicks)),
			measuredText(u.CpuStats.Measured, "Percent", Percent(u.CpuStats.Percent)),
			measuredText(u.MemoryStats.Measured, "RSS", MiB(u.MemoryStats.RSS)),
			measuredText(u.MemoryStats.Measured, "Max Usage", MiB(u.MemoryStats.MaxUsage)),
			deviceSummary(u.DeviceStats),
		)
	}
	c.Section("Use of resources", "Task|CPU|Of a processor|Memory|Highest|Devices", rows)
	if len(s.Unmeasured) == 0 {
		return nil
	}
	var failed Grid
	for name, reason := range Sorted(s.Unmeasured) {
		failed.AddRow(name, reason)
	}
	c.Section("Not measured", "Task|Reason", failed)
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
		for id, d := range Sorted(g.InstanceStats) {
			all = append(all, strings.TrimSpace(g.ID()+" "+id+" "+StatText(d.Summary)))
		}
	}
	return strings.Join(all, ", ")
}
