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
	err := newWatch(c).await(ctx, nodeOfAlloc(allocID), seeAlloc(c, allocID), func() (err error) {
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
