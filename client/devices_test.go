package client

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/client/assembly"
	"berth/client/devices"
	"berth/client/hooks"
	"berth/structs"
	"berth/structs/capacity"
)

// withDevice returns an allocation that has a device.
func withDevice(id string, created uint64, deviceID string) *structs.Allocation {
	a := testAlloc(id)
	a.CreateIndex = created
	a.Devices = map[string][]*structs.AllocatedDeviceResource{
		"web": {{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{deviceID}}},
	}
	return a
}

// reservesDevices gives tasks their devices as a variable.
func reservesDevices(made assembly.Parts, env *hooks.AllocEnv, task *structs.Task) []hooks.Task {
	reserve := func(
		_ context.Context, _ string, held []*structs.AllocatedDeviceResource,
	) (*devices.Reservation, error) {
		ids := strings.Join(held[0].DeviceIDs, ",")
		return &devices.Reservation{Env: map[string]string{"DEVICES": ids}}, nil
	}
	h := devices.NewHook(devices.HookConfig{
		Reserve:  reserve,
		Holder:   made.Holds.DeviceHolder,
		Progress: made.Progress,
	}, env, task)
	return []hooks.Task{h}
}

// The servers give a device on when they stop an allocation. The next one starts when the task has really
// ended, also if the agent restarts meanwhile.
func TestDevices_AreNotUsedByTwoTasks(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		r.parts.tasks = reservesDevices
		r.run()
		defer func() { r.stop() }()
		r.servers.place(withDevice("a1", 5, "0"), withDevice("other", 5, "1"))
		r.pass(time.Second)
		var hangs atomic.Bool
		hangs.Store(true)
		r.machine.Before = func(point string) error {
			if point == "stop a1/web" && hangs.Load() {
				return errors.New("the task does not end")
			}
			return nil
		}
		r.servers.stopAlloc("a1")
		r.servers.place(withDevice("a2", 9, "0"), withDevice("free", 9, "2"))
		waits := func() {
			t.Helper()
			r.pass(time.Minute)
			if got := r.machine.Running(); !slices.Equal(got, []string{"a1/web", "free/web", "other/web"}) {
				t.Fatalf("running %v", got)
			}
			const why = "waits for allocation a1, which still holds one of its devices"
			if got := r.client.work.allocs.get("a2").ClientState().ClientDescription; got != why {
				t.Errorf("a2 says %q, want %q", got, why)
			}
		}
		waits()
		r.stop()
		r.start(false)
		waits()
		hangs.Store(false)
		r.pass(2 * time.Minute)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a2/web", "free/web", "other/web"}) {
			t.Fatalf("running %v", got)
		}
		if got := r.client.work.allocs.get("a2").ClientState().ClientDescription; strings.Contains(got, "a1") {
			t.Errorf("a2 still says %q", got)
		}
		if got := r.machine.Task("a2/web").Config.Env["DEVICES"]; got != "0" {
			t.Errorf("a2 has the devices %q", got)
		}
		if got := r.machine.Task("other/web").Starts; got != 1 {
			t.Errorf("an allocation with another device was started %d times", got)
		}
	})
}

// After a return of the servers to an earlier state a new allocation may have a lower index than allocations
// that the servers no longer know.
func TestDeviceHolder_IsAnAllocationThatEnds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		if !r.client.work.holds.HoldsDevices("a1") {
			t.Error("an allocation holds nothing before the agent has looked for its tasks")
		}
		r.run()
		defer r.stop()
		r.servers.place(withDevice("a1", 5, "0"))
		r.pass(time.Second)
		var ends atomic.Bool
		r.machine.Before = func(point string) error {
			if point == "stop a1/web" && !ends.Load() {
				return errors.New("the task does not end")
			}
			return nil
		}
		r.servers.remove("a1")
		r.pass(time.Second)
		if got := r.client.work.holds.DeviceHolder(withDevice("a2", 4, "0")); got != "a1" {
			t.Errorf("the holder is %q, want a1", got)
		}
		ends.Store(true)
		r.pass(2 * time.Minute)
		if got := r.client.work.holds.DeviceHolder(withDevice("a2", 4, "0")); got != "" {
			t.Errorf("an allocation that is gone holds a device: %q", got)
		}
	})
}

// startedHook counts how often its task is started or found again.
type startedHook struct{ times *atomic.Int32 }

func (startedHook) Name() string                             { return "started" }
func (startedHook) Up(context.Context, *hooks.TaskEnv) error { return nil }
func (startedHook) Down(context.Context) error               { return nil }
func (h startedHook) Started(context.Context, hooks.Control) { h.times.Add(1) }
func (startedHook) Stopped()                                 {}

// A device that vanishes stays with its running task, also if the agent restarts: nothing of the task waits
// for it. The next start of the task has the devices again.
func TestDevices_OfARunningTaskOutliveTheAgent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		var gone atomic.Bool
		var started atomic.Int32
		r.parts.tasks = func(made assembly.Parts, env *hooks.AllocEnv, task *structs.Task) []hooks.Task {
			reserve := func(
				_ context.Context, _ string, held []*structs.AllocatedDeviceResource,
			) (*devices.Reservation, error) {
				if gone.Load() {
					return nil, structs.Unavailablef("the device is gone")
				}
				return &devices.Reservation{Env: map[string]string{"DEVICES": held[0].DeviceIDs[0]}}, nil
			}
			h := devices.NewHook(devices.HookConfig{
				Reserve:  reserve,
				Holder:   made.Holds.DeviceHolder,
				Progress: made.Progress,
			}, env, task)
			return []hooks.Task{h, startedHook{&started}}
		}
		r.run()
		defer func() { r.stop() }()
		r.servers.place(withDevice("a1", 5, "0"))
		r.pass(time.Second)
		gone.Store(true)
		r.stop()
		r.start(false)
		r.pass(time.Minute)
		if got := r.machine.Task("a1/web").Starts; got != 1 || started.Load() != 2 {
			t.Errorf("the task was started %d times, and its hooks %d times", got, started.Load())
		}
		gone.Store(false)
		r.machine.Exit("a1/web", failed)
		r.pass(time.Minute)
		task := r.machine.Task("a1/web")
		if task.Starts != 2 || task.Config.Env["DEVICES"] != "0" || started.Load() != 3 {
			t.Errorf("after a restart of the task: %d starts, the devices %q", task.Starts, task.Config.Env["DEVICES"])
		}
	})
}

func TestNode_ShowsWhyADevicePluginFails(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const attribute = "unique.device_plugin.gpu.error"
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		r.parts.devices.fail(map[string]string{"gpu": "no driver is loaded"})
		r.pass(time.Second)
		if got := r.known().Attributes[attribute]; got != "no driver is loaded" {
			t.Errorf("the servers know %q", got)
		}
		r.parts.devices.fail(nil)
		r.pass(time.Second)
		if got, has := r.known().Attributes[attribute]; has {
			t.Errorf("the servers still know %q", got)
		}
	})
}

func TestDeviceHolder_IsAnOlderAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.place(withDevice("a1", 5, "0"), withDevice("later", 9, "1"))
		r.pass(time.Second)
		for _, c := range []struct {
			alloc *structs.Allocation
			want  string
		}{
			{withDevice("a2", 6, "0"), "a1"},
			{withDevice("a2", 4, "0"), ""}, // the id0 went from this one to a1
			{withDevice("a2", 6, "1"), ""},
			{withDevice("a1", 5, "0"), ""},
			{testAlloc("a2"), ""},
		} {
			if got := r.client.work.holds.DeviceHolder(c.alloc); got != c.want {
				t.Errorf("%s of index %d: got %q, want %q", c.alloc.ID, c.alloc.CreateIndex, got, c.want)
			}
		}
		for id, want := range map[string]capacity.DeviceUse{
			"later":   {"acme/gpu/x1": {"0": "a1"}},
			"a1":      nil,
			"unknown": nil,
		} {
			if got := r.client.work.holds.OtherDevices(id); !reflect.DeepEqual(got, want) {
				t.Errorf("the others of %s have %v, want %v", id, got, want)
			}
		}
		if r.client.work.holds.HoldsDevices("unknown") || !r.client.work.holds.HoldsDevices("a1") {
			t.Error("an allocation that is not here holds devices, or one that runs does not")
		}
		r.machine.Exit("a1/web", failed)
		r.pass(2 * time.Second)
		r.machine.Exit("a1/web", failed)
		r.pass(2 * time.Second)
		if r.client.work.holds.HoldsDevices("a1") {
			t.Error("an allocation that has ended holds devices")
		}
		if got := r.client.work.holds.DeviceHolder(withDevice("a2", 6, "0")); got != "" {
			t.Errorf("an allocation that has ended holds a device: %q", got)
		}
	})
}
