package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/structs"
)

func TestAllocStats_FindTheDevicesOfATask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		alloc := testAlloc("a1")
		alloc.Devices = map[string][]*structs.AllocatedDeviceResource{
			"web": {{Name: "gpu", DeviceIDs: []string{"1"}}},
		}
		r.servers.place(alloc)
		r.pass(time.Second)
		got, err := r.client.AllocStats(t.Context(), "a1", "")
		if err != nil {
			t.Fatal(err)
		}
		devices := got.Tasks["web"].ResourceUsage.DeviceStats
		if len(devices) != 1 || len(devices[0].InstanceStats) != 1 || devices[0].InstanceStats["1"] == nil {
			t.Errorf("the task has the devices %+v", devices)
		}
		_, err = r.client.AllocStats(t.Context(), "a2", "")
		if !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("an allocation that is not here: %v", err)
		}
		r.servers.remove("a1")
		r.pass(time.Second)
		_, err = r.client.AllocStats(t.Context(), "a1", "")
		if !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("a deleted allocation: %v", err)
		}
	})
}

func TestHostStats_HaveTheDevicesOfTheNode(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.CPUTotalCompute = 7000 }
		r.start(false)
		defer r.stop()
		got, err := r.client.HostStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got.DeviceStats) != 1 || len(got.DeviceStats[0].InstanceStats) != 3 {
			t.Errorf("the devices are %+v", got.DeviceStats)
		}
		if got.CPUTicksConsumed < 0 || got.CPUTicksConsumed > 7000.001 {
			t.Errorf("%v of 7000 MHz are used", got.CPUTicksConsumed)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = r.client.HostStats(ctx)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after the caller has left: %v", err)
		}
	})
}
