package nodecalls

import (
	"maps"
	"slices"
	"testing"
)

// usageAt is the use of a task with one device.
func usageAt(timestamp int64, device string) *TaskResourceUsage {
	u := NewResourceUsage()
	u.MemoryStats.SetValues(1, 2, 3)
	u.CpuStats.SetPercent(25, 2000)
	u.DeviceStats = []*DeviceGroupStats{{
		Name:          "x1",
		InstanceStats: map[string]*DeviceStats{device: {}},
	}}
	return &TaskResourceUsage{ResourceUsage: u, Timestamp: timestamp}
}

// TestAddTask_SumsTheTasks: the time is that of the newest measurement, a group of devices is there once, and
// the tasks keep their own devices.
func TestAddTask_SumsTheTasks(t *testing.T) {
	all := NewAllocResourceUsage()
	all.AddTask("a", usageAt(20, "0"))
	all.AddTask("b", usageAt(10, "1"))
	unmeasured := &TaskResourceUsage{ResourceUsage: NewResourceUsage()}
	all.AddTask("c", unmeasured)
	if all.Timestamp != 20 {
		t.Errorf("the time is %d, want the newest one, 20", all.Timestamp)
	}
	m := all.ResourceUsage.MemoryStats
	if m.RSS != 2 || m.Usage != 4 || m.MaxUsage != 6 ||
		!slices.Equal(m.Measured, []string{"RSS", "Usage", "Max Usage"}) {
		t.Errorf("the memory is %+v", m)
	}
	c := all.ResourceUsage.CpuStats
	if c.Percent != 50 || c.TotalTicks != 1000 ||
		!slices.Equal(c.Measured, []string{"Percent", "Total Ticks"}) {
		t.Errorf("the processors are %+v", c)
	}
	devices := func(groups []*DeviceGroupStats) (ids []string) {
		for _, g := range groups {
			ids = append(ids, slices.Sorted(maps.Keys(g.InstanceStats))...)
		}
		return ids
	}
	if got := all.ResourceUsage.DeviceStats; len(got) != 1 || !slices.Equal(devices(got), []string{"0", "1"}) {
		t.Errorf("the devices are %q in %d groups", devices(got), len(got))
	}
	for task, want := range map[string][]string{"a": {"0"}, "b": {"1"}, "c": nil} {
		got := devices(all.Tasks[task].ResourceUsage.DeviceStats)
		if !slices.Equal(got, want) {
			t.Errorf("task %s has the devices %q, want %q", task, got, want)
		}
	}
}

func TestMeasured_NamesOnlyTheValuesOfTheDriver(t *testing.T) {
	u := NewResourceUsage()
	u.MemoryStats.SetValues(5, 0, 0)
	u.CpuStats.SetPercent(0, 0) // a task that sleeps, on a machine of unknown speed
	if m := u.MemoryStats.Measured; !slices.Equal(m, []string{"RSS"}) {
		t.Errorf("of memory: %q", m)
	}
	if m := u.CpuStats.Measured; !slices.Equal(m, []string{"Percent"}) {
		t.Errorf("of processors: %q", m)
	}
}
