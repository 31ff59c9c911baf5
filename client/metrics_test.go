package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/internal/telemetry"
	"berth/structs"
	"berth/structs/nodecalls"
)

// metricValues are gauges by name, with the values of their labels.
type metricValues map[string]float64

func (v metricValues) add(g telemetry.Gauge) {
	name := strings.TrimPrefix(g.Name, "nomad.client.")
	for _, label := range slices.Sorted(maps.Keys(g.Labels)) {
		name += " " + g.Labels[label]
	}
	v[name] = g.Value
}

func (v metricValues) want(t *testing.T, want metricValues) {
	t.Helper()
	for name, value := range want {
		got, ok := v[name]
		if !ok || got != value {
			t.Errorf("%s is %v (%t), want %v", name, got, ok, value)
		}
	}
}

func statsAt(second int64, cpu, user, system uint64) *driver.Stats {
	return &driver.Stats{
		CollectedAt: second * int64(time.Second),
		Stats: cgroups.Stats{
			CPUTotal: cpu, CPUUser: user, CPUSystem: system, ThrottledPeriods: 2, ThrottledTime: 9,
		},
	}
}

func TestProcessors_AreMeasuredOverTheInterval(t *testing.T) {
	const s = uint64(time.Second)
	found := metricValues{}
	u := usage{yield: found.add}
	first := statsAt(10, 5*s, 4*s, s)
	if ticks := u.processors(meter{}, first, 2000); ticks != 0 || len(found) != 2 {
		t.Errorf("the first reading gives %v MHz and %v", ticks, found)
	}
	ticks := u.processors(meter{first, 100}, statsAt(20, 10*s, 8*s, 2*s), 2000)
	found.want(t, metricValues{
		"allocs.cpu.total_percent": 50, "allocs.cpu.user": 40, "allocs.cpu.system": 10,
		"allocs.cpu.total_ticks": 1000, "allocs.cpu.total_ticks_count": 1100,
		"allocs.cpu.throttled_periods": 2, "allocs.cpu.throttled_time": 9,
	})
	if ticks != 1000 {
		t.Errorf("got %v MHz", ticks)
	}

	clear(found)
	u.processors(meter{statsAt(20, 10*s, 8*s, 2*s), 0}, statsAt(30, s, s, 0), 2000)
	if _, has := found["allocs.cpu.total_percent"]; has {
		t.Errorf("another process of the task has %v", found)
	}
	percent := 75.0
	own := statsAt(30, 0, 0, 0)
	own.Percent = &percent
	u.processors(meter{}, own, 2000)
	found.want(t, metricValues{"allocs.cpu.total_percent": 75, "allocs.cpu.total_ticks": 1500})
}

func TestTasks_HaveTheirReservationsAndMemory(t *testing.T) {
	found := metricValues{}
	u := usage{yield: found.add}
	u.reserved(&structs.Resources{CPU: 500, MemoryMB: 256, MemoryMaxMB: 512})
	u.memory(&driver.Stats{Stats: cgroups.Stats{
		MemoryRSS: 1, MemoryUsage: 2, MemoryMax: 3, MemoryCache: 4, MemorySwap: 5,
	}})
	found.want(t, metricValues{
		"allocs.cpu.allocated": 500, "allocs.memory.allocated": 256 << 20, "allocs.memory.max_allocated": 512 << 20,
		"allocs.memory.rss": 1, "allocs.memory.usage": 2, "allocs.memory.max_usage": 3, "allocs.memory.cache": 4,
		"allocs.memory.swap": 5,
	})
}

func TestTotals_CountWhatHasNotEnded(t *testing.T) {
	all := totals{allocs: map[string]int{}, tasks: map[string]int{}}
	reserved := &structs.Allocation{Resources: &structs.Resources{CPU: 100, MemoryMB: 50, DiskMB: 10}}
	for i, s := range []structs.AllocClientUpdate{
		{ClientStatus: structs.AllocRunning, TaskStates: map[string]*structs.TaskState{
			"a": {State: structs.TaskRunning}, "b": {State: structs.TaskPending},
		}},
		{ClientStatus: structs.AllocPending},
		{ClientStatus: structs.AllocPending},
		{ClientStatus: structs.AllocComplete, TaskStates: map[string]*structs.TaskState{
			"a": {State: structs.TaskDead},
		}},
		{ClientStatus: structs.AllocFailed},
	} {
		all.add(reserved, &s, i == 1)
	}
	want := totals{
		allocated: structs.Resources{CPU: 300, MemoryMB: 150, DiskMB: 30},
		allocs:    map[string]int{"running": 1, "blocked": 1, "pending": 1, "terminal": 2},
		tasks:     map[string]int{"running": 1, "pending": 1, "dead": 1},
	}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", all, want)
	}
}

func TestCounters_ComeFromTheStatesOfTasks(t *testing.T) {
	alloc := &structs.Allocation{
		ID: "a", Namespace: "ns", JobID: "j/dispatch-1", TaskGroup: "g", Job: &structs.Job{ParentID: "j"},
	}
	oom := &structs.TaskEvent{Details: map[string]string{"oom_killed": "true"}}
	found := metricValues{}
	taskCounters(alloc, &structs.AllocClientUpdate{TaskStates: map[string]*structs.TaskState{
		"new": {State: structs.TaskPending},
		"runs": {
			State: structs.TaskRunning, StartedAt: time.Unix(1, 0), Restarts: 2,
			Events: []*structs.TaskEvent{oom, oom, {}},
		},
		"done": {State: structs.TaskDead, StartedAt: time.Unix(1, 0)},
		"bad":  {State: structs.TaskDead, StartedAt: time.Unix(1, 0), Failed: true},
	}}, found.add)
	of := func(event, task string) string { return "allocs." + event + " a 1 j/dispatch-1 ns j " + task + " g" }
	found.want(t, metricValues{
		of("running", "new"): 0, of("running", "runs"): 3, of("running", "done"): 1,
		of("restart", "new"): 0, of("restart", "runs"): 2, of("oom_killed", "runs"): 2, of("oom_killed", "bad"): 0,
		of("complete", "runs"): 0, of("complete", "done"): 1, of("complete", "bad"): 0,
		of("failed", "runs"): 0, of("failed", "done"): 0, of("failed", "bad"): 1,
	})
}

func TestMachine_IsDescribedByPart(t *testing.T) {
	found := metricValues{}
	machineGauges(map[string]string{"node_id": "n"}, &nodecalls.HostStats{
		Uptime: 60,
		Memory: &nodecalls.HostMemoryStats{Total: 4, Available: 3, Used: 1, Free: 2},
		CPU: []*nodecalls.HostCPUStats{
			{CPU: "cpu0", Total: 50, User: 30, System: 20, Idle: 50}, {CPU: "cpu1", Idle: 100},
		},
		DiskStats: []*nodecalls.HostDiskStats{
			{Device: "/dev/a", Size: 10, Used: 4, Available: 6, UsedPercent: 40, InodesUsedPercent: 5},
		},
	}, 2000, found.add)
	found.want(t, metricValues{
		"uptime n": 60, "host.memory.total n": 4, "host.memory.available n": 3, "host.memory.used n": 1,
		"host.memory.free n": 2, "host.cpu.total cpu0 n": 50, "host.cpu.total_percent cpu0 n": 50,
		"host.cpu.total_ticks cpu0 n": 1000, "host.cpu.user cpu0 n": 30, "host.cpu.system cpu0 n": 20,
		"host.cpu.idle cpu1 n": 100, "host.disk.size /dev/a n": 10, "host.disk.used /dev/a n": 4,
		"host.disk.available /dev/a n": 6, "host.disk.used_percent /dev/a n": 40,
		"host.disk.inodes_percent /dev/a n": 5,
	})
}

func TestLabels_AreThoseOfTheDialect(t *testing.T) {
	got := metricLabels(&structs.Node{
		ID: "n", Datacenter: "dc", NodePool: "p", Status: "ready", SchedulingEligibility: "eligible",
	})
	want := map[string]string{
		"node_id": "n", "datacenter": "dc", "node_class": "none", "node_pool": "p", "node_status": "ready",
		"node_scheduling_eligibility": "eligible",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
