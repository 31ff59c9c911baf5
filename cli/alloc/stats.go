package alloc

import (
	"berth/api/allocs"
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs/nodecalls"
)

// printAllocStats measures the running tasks of an allocation.
func printAllocStats(ctx context.Context, c *command.Call, allocID string) error {
	var s *nodecalls.AllocResourceUsage
	err := watch.New(c).Await(ctx, NodeOf(allocID), watch.SeeAlloc(c, allocID), func() (err error) {
		s, err = allocs.Stats(ctx, c.API, allocID, "")
		return err
	})
	if err != nil {
		return err
	}

	var rows command.Grid
	for name, t := range show.Sorted(s.Tasks) {
		u := t.ResourceUsage
		rows.AddRow(
			name,
			measuredText(u.CpuStats.Measured, "Total Ticks", fmt.Sprintf("%.0f MHz", u.CpuStats.TotalTicks)),
			measuredText(u.CpuStats.Measured, "Percent", command.Percent(u.CpuStats.Percent)),
			measuredText(u.MemoryStats.Measured, "RSS", command.MiB(u.MemoryStats.RSS)),
			measuredText(u.MemoryStats.Measured, "Max Usage", command.MiB(u.MemoryStats.MaxUsage)),
			deviceSummary(u.DeviceStats),
		)
	}

	c.Section("Use of resources", "Task|CPU|Of a processor|Memory|Highest|Devices", rows)
	if len(s.Unmeasured) == 0 {
		return nil
	}

	var failed command.Grid
	for name, reason := range show.Sorted(s.Unmeasured) {
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
func deviceSummary(groups []*nodecalls.DeviceGroupStats) string {
	var all []string
	for _, g := range groups {
		for id, d := range show.Sorted(g.InstanceStats) {
			all = append(all, strings.TrimSpace(g.ID()+" "+id+" "+command.StatText(d.Summary)))
		}
	}
	return strings.Join(all, ", ")
}
