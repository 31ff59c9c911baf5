package allocrunner

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/taskrunner"
	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/structs"
	"berth/structs/nodecalls"
)

// machineDevices are the statistics of the devices of a machine, by group and ID.
type machineDevices map[string]map[string]*nodecalls.DeviceStats

// DeviceStats implements DeviceStats.
func (m machineDevices) DeviceStats(
	devices []*structs.AllocatedDeviceResource,
) []*nodecalls.DeviceGroupStats {
	var all []*nodecalls.DeviceGroupStats
	for _, d := range devices {
		g := &nodecalls.DeviceGroupStats{
			Vendor:        d.Vendor,
			Type:          d.Type,
			Name:          d.Name,
			InstanceStats: map[string]*nodecalls.DeviceStats{},
		}
		for _, id := range d.DeviceIDs {
			g.InstanceStats[id] = m[d.ID()][id]
		}
		all = append(all, g)
	}
	return all
}

// measuredAgent runs an allocation with the tasks a and b. Each second, a task uses one processor of a
// thousand MHz for half a second.
func measuredAgent(t *testing.T, fx *fixture, alloc *structs.Allocation) (*agent, *Runner) {
	t.Helper()
	begin := time.Now()
	fx.machine.Usage = func(context.Context, string) (*driver.Stats, error) {
		return &driver.Stats{
			CollectedAt: time.Now().UnixNano(),
			Stats: cgroups.Stats{
				MemoryRSS: 10,
				MemoryMax: 20,
				CPUTotal:  uint64(time.Since(begin) / 2),
			},
		}, nil
	}
	a := fx.agent()
	node := *a.deps.Node()
	node.NodeResources = &structs.NodeResources{CPU: structs.NodeCPUResources{CpuShares: 4000, TotalCpuCores: 4}}
	a.deps.Node = func() *structs.Node { return &node }
	r := a.new(alloc)
	close(a.contacted)
	synctest.Wait()
	return a, r
}

func TestStats_CompareTwoReadings(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a, r := measuredAgent(t, newFixture(t), testAlloc("a", "b"))
		defer a.stop()
		begin := time.Now()
		got, err := r.Stats(t.Context(), "", machineDevices{})
		if err != nil {
			t.Fatal(err)
		}
		one := got.Tasks["a"].ResourceUsage
		if one.CpuStats.Percent != 50 || one.CpuStats.TotalTicks != 500 ||
			one.MemoryStats.RSS != 10 || one.MemoryStats.MaxUsage != 20 {
			t.Errorf("task a uses %+v and %+v", one.CpuStats, one.MemoryStats)
		}
		both := got.ResourceUsage
		if len(got.Tasks) != 2 || both.CpuStats.Percent != 100 || both.CpuStats.TotalTicks != 1000 ||
			both.MemoryStats.RSS != 20 || both.MemoryStats.MaxUsage != 40 {
			t.Errorf("%d tasks use %+v and %+v", len(got.Tasks), both.CpuStats, both.MemoryStats)
		}
		equal(t, "measured of memory", both.MemoryStats.Measured, []string{"RSS", "Max Usage"})
		equal(t, "measured of processors", both.CpuStats.Measured, []string{"Percent", "Total Ticks"})
		if got.Timestamp != begin.Add(taskrunner.StatsWindow).UnixNano() {
			t.Errorf("the time is %d, want that of the second reading", got.Timestamp)
		}
		got, err = r.Stats(t.Context(), "b", machineDevices{})
		if err != nil || len(got.Tasks) != 1 || got.Tasks["b"] == nil || got.ResourceUsage.MemoryStats.RSS != 10 {
			t.Errorf("of task b alone: %+v, %v", got, err)
		}
	})
}

func TestStats_BelieveADriverThatMeasuresProcessors(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a, r := measuredAgent(t, fx, testAlloc("a"))
		defer a.stop()
		percent := 12.5
		fx.machine.Usage = func(context.Context, string) (*driver.Stats, error) {
			return &driver.Stats{Percent: &percent}, nil
		}
		got, err := r.Stats(t.Context(), "", machineDevices{})
		if err != nil {
			t.Fatal(err)
		}
		if cpu := got.ResourceUsage.CpuStats; cpu.Percent != 12.5 || cpu.TotalTicks != 125 {
			t.Errorf("got %+v", cpu)
		}
		fx.machine.Usage = func(context.Context, string) (*driver.Stats, error) { return &driver.Stats{}, nil }
		got, err = r.Stats(t.Context(), "", machineDevices{})
		if err != nil || len(got.Tasks) != 1 || len(got.ResourceUsage.CpuStats.Measured) > 0 ||
			len(got.ResourceUsage.MemoryStats.Measured) > 0 {
			t.Errorf("of a driver that measures nothing: %+v, %v", got.ResourceUsage, err)
		}
	})
}

// TestStats_ShowOnlyTheTasksDevices: the devices of one group that two tasks have are one group of the
// allocation, and each task shows its own.
func TestStats_ShowOnlyTheTasksDevices(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		alloc := testAlloc("a", "b", "c")
		gpus := func(ids ...string) *structs.AllocatedDeviceResource {
			return &structs.AllocatedDeviceResource{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: ids}
		}
		fpga := &structs.AllocatedDeviceResource{Vendor: "acme", Type: "fpga", Name: "f", DeviceIDs: []string{"7"}}
		alloc.Devices = map[string][]*structs.AllocatedDeviceResource{"a": {gpus("0"), fpga}, "b": {gpus("1", "2")}}
		stats := map[string]*nodecalls.DeviceStats{}
		for _, id := range []string{"0", "1", "2", "3", "7"} {
			stats[id] = &nodecalls.DeviceStats{Summary: &nodecalls.StatValue{StringVal: &id}}
		}
		devices := machineDevices{"acme/gpu/x1": stats, "acme/fpga/f": stats}
		a, r := measuredAgent(t, newFixture(t), alloc)
		defer a.stop()
		got, err := r.Stats(t.Context(), "", devices)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			usage *nodecalls.ResourceUsage
			want  []string
		}{
			"a":        {got.Tasks["a"].ResourceUsage, []string{"acme/fpga/f: 7", "acme/gpu/x1: 0"}},
			"b":        {got.Tasks["b"].ResourceUsage, []string{"acme/gpu/x1: 1 2"}},
			"c":        {got.Tasks["c"].ResourceUsage, nil},
			"together": {got.ResourceUsage, []string{"acme/fpga/f: 7", "acme/gpu/x1: 0 1 2"}},
		} {
			var groups []string
			for _, g := range c.usage.DeviceStats {
				groups = append(groups, g.ID()+": "+strings.Join(slices.Sorted(maps.Keys(g.InstanceStats)), " "))
			}
			slices.Sort(groups)
			equal(t, "devices of "+name, groups, c.want)
		}
	})
}

func TestStats_RejectTasksThatAreNotThereOrDoNotRun(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a, r := measuredAgent(t, fx, asBatch(testAlloc("a", "b")))
		defer a.stop()
		_, err := r.Stats(t.Context(), "x", machineDevices{})
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), `"x"; expected one of: a, b`) {
			t.Errorf("an unknown task: %v", err)
		}
		fx.machine.Exit("alloc1/a", ok)
		synctest.Wait()
		_, err = r.Stats(t.Context(), "a", machineDevices{})
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), `"a" of allocation alloc1 is dead`) {
			t.Errorf("an ended task: %v", err)
		}
		got, err := r.Stats(t.Context(), "", machineDevices{})
		if err != nil || got.Tasks["a"] != nil || got.Tasks["b"] == nil || len(got.Unmeasured) > 0 {
			t.Errorf("beside an ended task: %+v, %v", got, err)
		}
		fx.machine.Exit("alloc1/b", ok)
		synctest.Wait()
		got, err = r.Stats(t.Context(), "", machineDevices{})
		want := nodecalls.NewAllocResourceUsage()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("of an ended allocation: %+v, %v", got, err)
		}
	})
}

// TestStats_OfATaskThatEndsMeanwhile: the driver no longer knows the task when it is read again.
func TestStats_OfATaskThatEndsMeanwhile(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a, r := measuredAgent(t, fx, asBatch(testAlloc("a")))
		defer a.stop()
		end := time.AfterFunc(taskrunner.StatsWindow/2, func() { fx.machine.Exit("alloc1/a", ok) })
		defer end.Stop()
		got, err := r.Stats(t.Context(), "", machineDevices{})
		if err != nil || len(got.Tasks)+len(got.Unmeasured) > 0 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestStats_BoundADriverThatHangs(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a, r := measuredAgent(t, fx, testAlloc("hangs", "fails", "works"))
		defer a.stop()
		measure := fx.machine.Usage
		fx.machine.Usage = func(ctx context.Context, id string) (*driver.Stats, error) {
			switch id {
			case "alloc1/hangs":
				<-ctx.Done()
				return nil, ctx.Err()
			case "alloc1/fails":
				return nil, structs.Internalf("no counters")
			}
			return measure(ctx, id)
		}
		begin := time.Now()
		got, err := r.Stats(t.Context(), "", machineDevices{})
		if err != nil || len(got.Tasks) != 1 || got.Tasks["works"] == nil {
			t.Fatalf("got %+v, %v", got, err)
		}
		if took := time.Since(begin); took > 2*taskrunner.StatsTimeout+taskrunner.StatsWindow {
			t.Errorf("it took %s", took)
		}
		want := map[string]string{"hangs": "driver fake did not answer within 5s", "fails": "no counters"}
		if !maps.Equal(got.Unmeasured, want) {
			t.Errorf("not measured: %q", got.Unmeasured)
		}
		_, err = r.Stats(t.Context(), "hangs", machineDevices{})
		if !structs.IsKind(err, structs.KindTimeout) ||
			!strings.Contains(err.Error(), "driver fake did not answer") {
			t.Errorf("of the task that hangs: %v", err)
		}
		_, err = r.Stats(t.Context(), "fails", machineDevices{})
		if !structs.IsKind(err, structs.KindInternal) {
			t.Errorf("of the task that fails: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		_, err = r.Stats(ctx, "", machineDevices{})
		if !structs.IsKind(err, structs.KindTimeout) || time.Since(begin) != time.Second {
			t.Errorf("after the caller has left: %v, %s", err, time.Since(begin))
		}
	})
}
