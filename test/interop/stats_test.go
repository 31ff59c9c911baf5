package interop

import (
	"slices"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/structs/nodecalls"
)

// deviceStats are the statistics of a device, with a value of each type.
func deviceStats() []*nodecalls.DeviceGroupStats {
	value := &nodecalls.StatValue{
		FloatNumeratorVal:   new(1.5),
		FloatDenominatorVal: new(2.5),
		IntNumeratorVal:     new(int64(3)),
		IntDenominatorVal:   new(int64(4)),
		StringVal:           new("text"),
		BoolVal:             new(true),
		Unit:                "MiB",
		Desc:                "memory in use",
	}
	inner := &nodecalls.StatObject{Attributes: map[string]*nodecalls.StatValue{"used": value}}
	return []*nodecalls.DeviceGroupStats{{
		Vendor: "acme",
		Type:   "gpu",
		Name:   "x1",
		InstanceStats: map[string]*nodecalls.DeviceStats{"0": {
			Summary:   value,
			Stats:     &nodecalls.StatObject{Nested: map[string]*nodecalls.StatObject{"memory": inner}},
			Timestamp: at,
		}},
	}}
}

// fakeUsage is the use of the allocation a1 with one task.
func fakeUsage() map[string]*nodecalls.AllocResourceUsage {
	task := &nodecalls.TaskResourceUsage{ResourceUsage: nodecalls.NewResourceUsage(), Timestamp: at.UnixNano()}
	task.ResourceUsage.MemoryStats.SetValues(1, 2, 3)
	task.ResourceUsage.CpuStats.SetPercent(50, 2000)
	task.ResourceUsage.DeviceStats = deviceStats()
	usage := nodecalls.NewAllocResourceUsage()
	usage.AddTask("app", task)
	return map[string]*nodecalls.AllocResourceUsage{"a1": usage}
}

func fakeHostStats() *nodecalls.HostStats {
	disk := &nodecalls.HostDiskStats{
		Device:            "/dev/vda",
		Mountpoint:        "/",
		Size:              10,
		Used:              4,
		Available:         6,
		UsedPercent:       40,
		InodesUsedPercent: 5,
	}
	return &nodecalls.HostStats{
		Memory:           &nodecalls.HostMemoryStats{Total: 10, Available: 6, Used: 4, Free: 3},
		CPU:              []*nodecalls.HostCPUStats{{CPU: "cpu0", User: 1, System: 2, Idle: 97, Total: 3}},
		DiskStats:        []*nodecalls.HostDiskStats{disk},
		AllocDirStats:    disk,
		DeviceStats:      deviceStats(),
		Uptime:           77,
		Timestamp:        at.UnixNano(),
		CPUTicksConsumed: 60,
	}
}

func checkDevices(t *testing.T, groups []*public.DeviceGroupStats) {
	t.Helper()
	if len(groups) != 1 || groups[0].Vendor+"/"+groups[0].Type+"/"+groups[0].Name != "acme/gpu/x1" {
		t.Fatalf("the groups are %+v", groups)
	}
	d := groups[0].InstanceStats["0"]
	if d == nil || !d.Timestamp.Equal(at) || d.Stats.Nested["memory"] == nil {
		t.Fatalf("the device is %+v", d)
	}
	for _, v := range []*public.StatValue{d.Summary, d.Stats.Nested["memory"].Attributes["used"]} {
		if *v.FloatNumeratorVal != 1.5 || *v.FloatDenominatorVal != 2.5 || *v.IntNumeratorVal != 3 ||
			*v.IntDenominatorVal != 4 || *v.StringVal != "text" || !*v.BoolVal || v.Unit != "MiB" ||
			v.Desc != "memory in use" {
			t.Errorf("the value is %+v", v)
		}
	}
}

func TestClient_ReadsStatistics(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	setAnswers(caller)
	usage, err := c.Allocations().Stats(&public.Allocation{ID: "a1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	task := usage.Tasks["app"]
	if task == nil || usage.Timestamp != at.UnixNano() || task.Timestamp != at.UnixNano() {
		t.Fatalf("the allocation uses %+v", usage)
	}
	for name, u := range map[string]*public.ResourceUsage{
		"task": task.ResourceUsage,
		"sum":  usage.ResourceUsage,
	} {
		m := u.MemoryStats
		if m.RSS != 1 || m.Usage != 2 || m.MaxUsage != 3 ||
			!slices.Equal(m.Measured, []string{"RSS", "Usage", "Max Usage"}) {
			t.Errorf("%s: the memory is %+v", name, m)
		}
		if u.CpuStats.Percent != 50 || u.CpuStats.TotalTicks != 1000 ||
			!slices.Equal(u.CpuStats.Measured, []string{"Percent", "Total Ticks"}) {
			t.Errorf("%s: the CPU is %+v", name, u.CpuStats)
		}
		checkDevices(t, u.DeviceStats)
	}
	host, err := c.Nodes().Stats("n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := public.HostDiskStats{
		Device:            "/dev/vda",
		Mountpoint:        "/",
		Size:              10,
		Used:              4,
		Available:         6,
		UsedPercent:       40,
		InodesUsedPercent: 5,
	}
	if *host.Memory != (public.HostMemoryStats{Total: 10, Available: 6, Used: 4, Free: 3}) ||
		*host.CPU[0] != (public.HostCPUStats{CPU: "cpu0", User: 1, System: 2, Idle: 97}) ||
		*host.DiskStats[0] != want || *host.AllocDirStats != want ||
		host.Uptime != 77 || host.CPUTicksConsumed != 60 {
		t.Errorf("the machine is %+v", host)
	}
	checkDevices(t, host.DeviceStats)
	_, err = c.Nodes().Stats("n2", nil)
	if err == nil {
		t.Error("an unknown node has statistics")
	}
}

// awaitStats measures a running allocation until its task app answers in time.
func awaitStats(
	t *testing.T, c *public.Client, alloc *public.Allocation,
) (usage *public.AllocResourceUsage, err error) {
	t.Helper()
	awaitAnswer(t, "statistics of the task", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		usage, err = c.Allocations().Stats(alloc, nil)
		return err != nil || usage.Tasks["app"] != nil, nil, nil
	})
	return usage, err
}

// testStatistics measures a running allocation and its node with a real agent.
func testStatistics(t *testing.T, c *public.Client, alloc *public.Allocation) {
	usage, err := awaitStats(t, c, alloc)
	if checkNoError(t, "statistics of an allocation", err) &&
		(usage.Tasks["app"] == nil || usage.ResourceUsage.MemoryStats.RSS == 0 || usage.Timestamp == 0 ||
			!slices.Contains(usage.ResourceUsage.CpuStats.Measured, "Percent")) {
		t.Errorf("the allocation uses %+v", usage.ResourceUsage)
	}
	one, err := c.Allocations().Stats(alloc, &public.QueryOptions{Params: map[string]string{"task": "app"}})
	if checkNoError(t, "statistics of a task", err) && len(one.Tasks) != 1 {
		t.Errorf("the tasks are %+v", one.Tasks)
	}
	_, err = c.Allocations().Stats(alloc, &public.QueryOptions{Params: map[string]string{"task": "none"}})
	if err == nil {
		t.Error("a task that does not exist has statistics")
	}
	_, err = c.Allocations().Stats(&public.Allocation{ID: "none"}, nil)
	if err == nil {
		t.Error("an allocation that does not exist has statistics")
	}
	host, err := c.Nodes().Stats(alloc.NodeID, nil)
	if checkNoError(t, "statistics of a node", err) &&
		(host.Memory.Total == 0 || len(host.CPU) == 0 || host.Uptime == 0 || host.AllocDirStats == nil) {
		t.Errorf("the machine is %+v", host)
	}
}
