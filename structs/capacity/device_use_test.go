package capacity

import (
	"berth/structs"
	"strings"
	"testing"
)

// equalDevices is a group of healthy devices "0", "1", ...
func equalDevices(name string, n int) *structs.NodeDeviceResource {
	g := &structs.NodeDeviceResource{Vendor: "acme", Type: "gpu", Name: name}
	for i := range n {
		g.Instances = append(g.Instances, &structs.NodeDevice{ID: string(rune('0' + i)), Healthy: true})
	}
	return g
}

func TestDeviceUse_RejectsDevices(t *testing.T) {
	n := &structs.Node{NodeResources: &structs.NodeResources{
		Devices: []*structs.NodeDeviceResource{equalDevices("x1", 3)},
	}}
	n.NodeResources.Devices[0].Instances[2].Healthy = false
	demand := &structs.Resources{
		Devices: []*structs.RequestedDevice{{Name: "gpu", Count: 1}, {Name: "acme/gpu", Count: 1}},
	}
	group := &structs.TaskGroup{Tasks: []*structs.Task{{Name: "t", Resources: demand}, {Name: "other"}}}
	given := func(group string, ids ...string) *structs.AllocatedDeviceResource {
		return &structs.AllocatedDeviceResource{Vendor: "acme", Type: "gpu", Name: group, DeviceIDs: ids}
	}
	use := DeviceUse{}
	holder := &structs.Allocation{
		ID:      "holder",
		Devices: map[string][]*structs.AllocatedDeviceResource{"x": {given("x3", "0"), nil}},
	}
	use.Add(holder)
	for _, c := range []struct {
		task    string
		devices []*structs.AllocatedDeviceResource
		want    string
	}{
		{"t", []*structs.AllocatedDeviceResource{given("x1", "0", "1")}, ""},
		{"t", []*structs.AllocatedDeviceResource{given("x1", "0"), given("x1", "1")}, ""},
		{"t", []*structs.AllocatedDeviceResource{given("x1", "0", "0")}, "device 0 of acme/gpu/x1 is given twice"},
		{"t", []*structs.AllocatedDeviceResource{given("x1", "0"), given("x1", "0")}, "device 0 of acme/gpu/x1 is given"},
		{"t", []*structs.AllocatedDeviceResource{given("x1", "0", "2")}, "device 2 of acme/gpu/x1 is not healthy"},
		{"t", []*structs.AllocatedDeviceResource{given("x1", "0", "7")}, "it has no device 7 of acme/gpu/x1"},
		{"t", []*structs.AllocatedDeviceResource{given("x2", "0", "1")}, "it has no device 0 of acme/gpu/x2"},
		{"t", []*structs.AllocatedDeviceResource{given("x1", "0")}, `task "t" demands 2 devices and is given 1`},
		{"t", []*structs.AllocatedDeviceResource{nil}, `task "t" is given devices of no group`},
		{"other", []*structs.AllocatedDeviceResource{given("x1", "0", "1")}, `task "t" demands 2 devices and is given 0`},
		{"none", []*structs.AllocatedDeviceResource{given("x1", "0")}, `a task "none", which its group does not have`},
	} {
		a := &structs.Allocation{ID: "a", Devices: map[string][]*structs.AllocatedDeviceResource{c.task: c.devices}}
		if got := use.Rejection(n, a, group); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	n.NodeResources.Devices = append(n.NodeResources.Devices, equalDevices("x3", 2))
	a := &structs.Allocation{Devices: map[string][]*structs.AllocatedDeviceResource{
		"t": {given("x3", "0", "1")},
	}}
	if got := use.Rejection(n, a, group); got != "allocation holder has device 0 of acme/gpu/x3" {
		t.Errorf("a device in use: %q", got)
	}
	if use.Holder(a) != "holder" {
		t.Error("the device has no holder")
	}
	use.AddDevices("another", given("x3", "1"))
	use.AddDevices("zeta", given("x3", "2"))
	all := &structs.Allocation{Devices: map[string][]*structs.AllocatedDeviceResource{
		"t": {given("x3", "0", "1", "2")},
	}}
	if got := use.Holder(all); got != "another" { // or a wait for all would name one after the other
		t.Errorf("the first holder is %s", got)
	}
	delete(use["acme/gpu/x3"], "1")
	use.Remove(holder)
	if got := use.Rejection(n, a, group) + use.Holder(a); got != "" {
		t.Errorf("a device that is free again: %q", got)
	}
}

// Most nodes and allocations have no devices: the entry of a plan counts each of them.
func TestDeviceUse_WithoutDevicesNeedsNoMemory(t *testing.T) {
	n := &structs.Node{NodeResources: &structs.NodeResources{}}
	group := &structs.TaskGroup{Tasks: []*structs.Task{{Name: "t", Resources: &structs.Resources{CPU: 1}}}}
	a := &structs.Allocation{ID: "a"}
	made := testing.AllocsPerRun(10, func() {
		var use DeviceUse
		use = use.Add(a)
		if use != nil || use.Rejection(n, a, group) != "" || use.Holder(a) != "" {
			t.Error("an allocation without devices has some")
		}
		use.Remove(a)
	})
	if made != 0 {
		t.Errorf("it makes %v values", made)
	}
}
