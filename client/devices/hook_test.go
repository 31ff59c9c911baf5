package devices

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
)

// fixture is a task with a device, and the parts of the agent that its hook calls.
type fixture struct {
	env         *hooks.TaskEnv
	asked       []*structs.AllocatedDeviceResource
	askedFor    string
	reservation *Reservation
	err         error
	holders     []string // the answers, one after the other; then none
	said        []string
	events      []*structs.TaskEvent
}

func newFixture() *fixture {
	task := &structs.Task{Name: "t"}
	given := &structs.AllocatedDeviceResource{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"0"}}
	alloc := &hooks.AllocEnv{Alloc: &structs.Allocation{
		ID:      "a",
		Devices: map[string][]*structs.AllocatedDeviceResource{"t": {given}},
	}}
	f := &fixture{
		env: &hooks.TaskEnv{
			AllocEnv: alloc,
			Task:     task,
			Config:   &driver.TaskConfig{Env: map[string]string{"PATH": "/bin"}},
		},
		reservation: &Reservation{},
	}
	f.env.Emit = func(e *structs.TaskEvent) { f.events = append(f.events, e) }
	return f
}

func (f *fixture) config() HookConfig {
	return HookConfig{
		Reserve: func(
			_ context.Context, alloc string, held []*structs.AllocatedDeviceResource,
		) (*Reservation, error) {
			f.asked = held
			f.askedFor = alloc
			return f.reservation, f.err
		},
		Holder: func(*structs.Allocation) string {
			if len(f.holders) == 0 {
				return ""
			}
			first := f.holders[0]
			f.holders = f.holders[1:]
			return first
		},
		Progress: func(_, reason string) { f.said = append(f.said, reason) },
	}
}

func (f *fixture) up(ctx context.Context) error {
	return NewHook(f.config(), f.env.AllocEnv, f.env.Task).Up(ctx, f.env)
}

func TestNewHook_IsNilWithoutDevices(t *testing.T) {
	f := newFixture()
	if NewHook(f.config(), f.env.AllocEnv, &structs.Task{Name: "other"}) != nil {
		t.Error("a task without devices has a hook for them")
	}
}

func TestUp_AddsDevicesMountsAndVariables(t *testing.T) {
	f := newFixture()
	f.env.Task.Env = map[string]string{"SAME": "1"}
	f.reservation = &Reservation{
		Env:     map[string]string{"VISIBLE": "0", "SAME": "1"},
		Mounts:  []Mount{{TaskPath: "/lib/gpu", HostPath: "/opt/gpu", ReadOnly: true}},
		Devices: []DeviceFile{{TaskPath: "/dev/gpu", HostPath: "/dev/gpu0", Permissions: "rw"}},
	}
	if err := f.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEnv := map[string]string{"PATH": "/bin", "VISIBLE": "0", "SAME": "1"}
	wantMounts := []driver.Mount{
		{HostPath: "/opt/gpu", TaskPath: "/lib/gpu", ReadOnly: true},
		{HostPath: "/dev/gpu0", TaskPath: "/dev/gpu", Device: true, Permissions: "rw"},
	}
	if got := f.env.Config; !reflect.DeepEqual(got.Env, wantEnv) || !slices.Equal(got.Mounts, wantMounts) {
		t.Errorf("got %v and %+v", got.Env, got.Mounts)
	}
	if got := f.env.Config.DeviceEnv; !reflect.DeepEqual(got, f.reservation.Env) {
		t.Errorf("the variables of the devices are %v", got)
	}
	if !reflect.DeepEqual(f.asked, f.env.Alloc.Devices["t"]) || f.askedFor != "a" || len(f.said) > 0 {
		t.Errorf("the plugin was asked for %+v for %q, and the allocation said %q", f.asked, f.askedFor, f.said)
	}
}

// A device works only with its own values, so they win. The event says so without the values: they may be
// secret.
func TestUp_PrefersTheDeviceForAVariableAndWarns(t *testing.T) {
	f := newFixture()
	f.env.Task.Env = map[string]string{"SAME": "1", "VISIBLE": "all"}
	f.env.Config.Env["VISIBLE"] = "all"
	f.reservation.Env = map[string]string{"SAME": "1", "VISIBLE": "0"}
	if err := f.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.env.Config.Env["VISIBLE"]; got != "0" {
		t.Errorf("VISIBLE is %q, want the value of the device", got)
	}
	if len(f.events) != 1 || f.events[0].Type != structs.TaskEventHookMessage {
		t.Fatalf("got %d events, want one warning: %+v", len(f.events), f.events)
	}
	message := f.events[0].Message
	others := strings.Contains(message, "all") || strings.Contains(message, "SAME")
	if others || !strings.Contains(message, "VISIBLE") {
		t.Errorf("the warning is %q", message)
	}
}

// A process that runs since before the agent restarted needs no reservation, and its other hooks do not wait.
func TestUp_LeavesARunningProcessAlone(t *testing.T) {
	f := newFixture()
	f.env.Running = true
	f.holders = []string{"b"}
	f.err = errors.New("the device is gone")
	if err := f.up(t.Context()); err != nil || f.asked != nil || len(f.said) > 0 {
		t.Errorf("got %v; it asked for %+v and said %q", err, f.asked, f.said)
	}
}

func TestUp_FailsWithTheReservation(t *testing.T) {
	f := newFixture()
	f.err = errors.New("no more")
	if err := f.up(t.Context()); !errors.Is(err, f.err) {
		t.Errorf("got %v", err)
	}
	if len(f.env.Config.Mounts) > 0 {
		t.Errorf("mounts without a reservation: %+v", f.env.Config.Mounts)
	}
}

func TestUp_WaitsForEarlierAllocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.holders = []string{"b", "b", "c", "c"}
		begin := time.Now()
		if err := f.up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited != 4*hooks.AwaitInterval {
			t.Errorf("it waited %s", waited)
		}
		want := []string{
			"waits for allocation b, which still holds one of its devices",
			"waits for allocation c, which still holds one of its devices",
			"",
		}
		if !slices.Equal(f.said, want) {
			t.Errorf("it said %q, want %q", f.said, want)
		}
	})
}

func TestUp_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		for range 100 {
			f.holders = append(f.holders, "b")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.up(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if f.asked != nil {
			t.Error("devices of another allocation were reserved")
		}
	})
}
