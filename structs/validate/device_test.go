package validate

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestRequestedDevice_NamesTheFault(t *testing.T) {
	const named = `must be type, vendor/type or vendor/type/name`
	for _, c := range []struct {
		want string
		edit func(*structs.Job)
	}{
		{"", demanding(func(*structs.RequestedDevice) {})},
		{"", demanding(func(d *structs.RequestedDevice) { d.Name = "gpu" })},
		{"", demanding(func(d *structs.RequestedDevice) { d.Count = structs.MaxDevices })},
		{named, demanding(func(d *structs.RequestedDevice) { d.Name = "" })},
		{named, demanding(func(d *structs.RequestedDevice) { d.Name = "acme/" })},
		{named, demanding(func(d *structs.RequestedDevice) { d.Name = "a/b/c/d" })},
		{"device 1: name has 5000 bytes", demanding(func(d *structs.RequestedDevice) { d.Name = strings.Repeat("n", 5000) })},
		{"count 0 must be at least 1", demanding(func(d *structs.RequestedDevice) { d.Count = 0 })},
		{"count 1025 must be at most 1024", demanding(func(d *structs.RequestedDevice) { d.Count = structs.MaxDevices + 1 })},
		{"33 devices; at most 32", task(func(t *structs.Task) {
			t.Resources = &structs.Resources{}
			for range structs.MaxDeviceDemands + 1 {
				t.Resources.Devices = append(t.Resources.Devices, &structs.RequestedDevice{Name: "gpu", Count: 1})
			}
		})},
		{"device 1 is null", task(func(t *structs.Task) { t.Resources = &structs.Resources{Devices: []*structs.RequestedDevice{nil}} })},

		{"", constrainedDevice("${device.attr.memory}", ">=", "10 GiB")},
		{"", constrainedDevice("${device.attr.unique.serial}", "is_set", "")},
		{"", constrainedDevice("${device.ids}", "set_contains", "a,b")},
		{`constraint 1: operator "distinct_hosts" is not for devices`, constrainedDevice("", "distinct_hosts", "")},
		{`constraint 1: operator "~" must be one of`, constrainedDevice("${device.model}", "~", "x")},
		{`constraint 1: "${attr.kernel.name}" must be ${device.vendor}`,
			constrainedDevice("${attr.kernel.name}", "=", "linux")},
		{`constraint 1: "${device.name}" must be`, constrainedDevice("x", "=", "${device.name}")},
		{`constraint 1: "${device.attr.}" must be`, constrainedDevice("${device.attr.}", "=", "x")},
		{"constraint 1: value of regexp", constrainedDevice("${device.model}", "regexp", "(")},
		{"constraint 1: it is null", demanding(func(d *structs.RequestedDevice) { d.Constraints = []*structs.Constraint{nil} })},

		{"", preferredDevice(structs.Affinity{LTarget: "${device.model}", Operand: "=", RTarget: "x", Weight: -100})},
		{"affinity 1: weight 0 must be",
			preferredDevice(structs.Affinity{LTarget: "${device.model}", Operand: "=", RTarget: "x"})},
		{"affinity 1: weight 101 must be",
			preferredDevice(structs.Affinity{LTarget: "${device.model}", Operand: "=", RTarget: "x", Weight: 101})},
		{"affinity 1: attribute is required", preferredDevice(structs.Affinity{Operand: "=", RTarget: "x", Weight: 1})},
		{"affinity 1: it is null", demanding(func(d *structs.RequestedDevice) { d.Affinities = []*structs.Affinity{nil} })},
	} {
		err := Job(testJob(c.edit))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("a valid demand: %v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
