package structs

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestRequestedDevice_DefaultsInJSON(t *testing.T) {
	for body, want := range map[string]RequestedDevice{
		`{"Name": "gpu"}`: {Name: "gpu", Count: 1},
		`{"Name": "gpu", "Count": null, "Affinities": null}`: {Name: "gpu", Count: 1},
		`{"Name": "gpu", "Count": 0}`:                        {Name: "gpu"},
		`{"Count": 2, "Affinities": [{"LTarget": "a", "Weight": null}, {"Weight": -3}]}`: {
			Count:      2,
			Affinities: []*Affinity{{LTarget: "a", Weight: 50}, {Weight: -3}},
		},
	} {
		var got RequestedDevice
		if err := json.Unmarshal([]byte(body), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", body, got, err, want)
		}
	}
}

func TestDeviceAttributes_CompareByUnits(t *testing.T) {
	const never = 9
	for _, c := range []struct {
		a, b string
		sign int
	}{
		{"11 GiB", "11264 MiB", 0},
		{"11GiB", "12 GB", -1},
		{"12 GB", "11 GiB", 1},
		{"1 kB", "1000", never},
		{"1 KB", "1 kB", 0},
		{"2 GiB/s", "1 GiB", never},
		{"1 GHz", "1000 MHz", 0},
		{"1 W", "1000 mW", 0},
		{"1 MW", "1 W", 1},
		{"1.5", "1", 1},
		{"-3", "2", -1},
		{"true", "true", 0},
		{"true", "false", 1},
		{"abc", "abd", -1},
		{"abc", "1", never},
		{"1 parsec", "1 parsec", 0}, // texts
		{"1e999 W", "1 W", never},   // no number
	} {
		a := ParseDeviceAttribute(c.a)
		sign, compares := CompareDeviceAttributes(a, ParseDeviceAttribute(c.b))
		if !compares {
			sign = never
		}
		if sign != c.sign {
			t.Errorf("%s and %s: got %d, want %d", c.a, c.b, sign, c.sign)
		}
		if back := ParseDeviceAttribute(a.Text()); !reflect.DeepEqual(back, a) {
			t.Errorf("%s is written as %q", c.a, a.Text())
		}
	}
}

// gpus is a group of devices "0", "1", ...
func gpus(name string, n int) *NodeDeviceResource {
	g := &NodeDeviceResource{Vendor: "acme", Type: "gpu", Name: name}
	for i := range n {
		g.Instances = append(g.Instances, &NodeDevice{ID: string(rune('0' + i)), Healthy: true})
	}
	return g
}

func TestDeviceUse_RejectsDevices(t *testing.T) {
	n := &Node{NodeResources: &NodeResources{Devices: []*NodeDeviceResource{gpus("x1", 3)}}}
	n.NodeResources.Devices[0].Instances[2].Healthy = false
	demand := &Resources{Devices: []*RequestedDevice{{Name: "gpu", Count: 1}, {Name: "acme/gpu", Count: 1}}}
	group := &TaskGroup{Tasks: []*Task{{Name: "t", Resources: demand}, {Name: "other"}}}
	given := func(group string, ids ...string) *AllocatedDeviceResource {
		return &AllocatedDeviceResource{Vendor: "acme", Type: "gpu", Name: group, DeviceIDs: ids}
	}
	use := DeviceUse{}
	holder := &Allocation{
		ID:      "holder",
		Devices: map[string][]*AllocatedDeviceResource{"x": {given("x3", "0"), nil}},
	}
	use.Add(holder)
	for _, c := range []struct {
		task    string
		devices []*AllocatedDeviceResource
		want    string
	}{
		{"t", []*AllocatedDeviceResource{given("x1", "0", "1")}, ""},
		{"t", []*AllocatedDeviceResource{given("x1", "0"), given("x1", "1")}, ""},
		{"t", []*AllocatedDeviceResource{given("x1", "0", "0")}, "device 0 of acme/gpu/x1 is given twice"},
		{"t", []*AllocatedDeviceResource{given("x1", "0"), given("x1", "0")}, "device 0 of acme/gpu/x1 is given"},
		{"t", []*AllocatedDeviceResource{given("x1", "0", "2")}, "device 2 of acme/gpu/x1 is not healthy"},
		{"t", []*AllocatedDeviceResource{given("x1", "0", "7")}, "it has no device 7 of acme/gpu/x1"},
		{"t", []*AllocatedDeviceResource{given("x2", "0", "1")}, "it has no device 0 of acme/gpu/x2"},
		{"t", []*AllocatedDeviceResource{given("x1", "0")}, `task "t" demands 2 devices and is given 1`},
		{"t", []*AllocatedDeviceResource{nil}, `task "t" is given devices of no group`},
		{"other", []*AllocatedDeviceResource{given("x1", "0", "1")}, `task "t" demands 2 devices and is given 0`},
		{"none", []*AllocatedDeviceResource{given("x1", "0")}, `a task "none", which its group does not have`},
	} {
		a := &Allocation{ID: "a", Devices: map[string][]*AllocatedDeviceResource{c.task: c.devices}}
		if got := use.Rejection(n, a, group); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	n.NodeResources.Devices = append(n.NodeResources.Devices, gpus("x3", 2))
	a := &Allocation{Devices: map[string][]*AllocatedDeviceResource{"t": {given("x3", "0", "1")}}}
	if got := use.Rejection(n, a, group); got != "allocation holder has device 0 of acme/gpu/x3" {
		t.Errorf("a device in use: %q", got)
	}
	if use.Holder(a) != "holder" {
		t.Error("the device has no holder")
	}
	use.AddDevices("another", given("x3", "1"))
	use.AddDevices("zeta", given("x3", "2"))
	all := &Allocation{Devices: map[string][]*AllocatedDeviceResource{"t": {given("x3", "0", "1", "2")}}}
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
	n := &Node{NodeResources: &NodeResources{}}
	group := &TaskGroup{Tasks: []*Task{{Name: "t", Resources: &Resources{CPU: 1}}}}
	a := &Allocation{ID: "a"}
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

func TestSameDevices_IgnoresDescriptions(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*NodeDeviceResource)
		same bool
	}{
		"nothing":     {func(*NodeDeviceResource) {}, true},
		"description": {func(g *NodeDeviceResource) { g.Instances[0].HealthDescription = "warm" }, true},
		"locality":    {func(g *NodeDeviceResource) { g.Instances[0].Locality = &NodeDeviceLocality{} }, true},
		"health":      {func(g *NodeDeviceResource) { g.Instances[0].Healthy = false }, false},
		"device":      {func(g *NodeDeviceResource) { g.Instances[0].ID = "9" }, false},
		"name":        {func(g *NodeDeviceResource) { g.Name = "x2" }, false},
		"attribute": {func(g *NodeDeviceResource) {
			g.Attributes = map[string]*DeviceAttribute{"a": TextAttribute("b")}
		}, false},
	} {
		other := gpus("x1", 2)
		c.edit(other)
		if same := SameDevices(gpus("x1", 2), other); same != c.same {
			t.Errorf("%s: same is %v, want %v", name, same, c.same)
		}
	}
}

func TestAllocation_ShowsResourcesInTheDialect(t *testing.T) {
	a := &Allocation{
		TaskGroup: "g",
		Resources: &Resources{CPU: 150, MemoryMB: 30, DiskMB: 7},
		Job: &Job{TaskGroups: []*TaskGroup{{Name: "g", Tasks: []*Task{
			{Name: "t", Resources: &Resources{CPU: 100, MemoryMB: 20, MemoryMaxMB: 40}},
			{Name: "bare"},
		}}}},
		Devices: map[string][]*AllocatedDeviceResource{
			"t": {{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"0"}}},
		},
	}
	got, err := json.Marshal(a.WithResources().AllocatedResources)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Tasks":{"bare":{"Cpu":{"CpuShares":0},"Memory":{"MemoryMB":0}},` +
		`"t":{"Cpu":{"CpuShares":100},"Memory":{"MemoryMB":20,"MemoryMaxMB":40},` +
		`"Devices":[{"Vendor":"acme","Type":"gpu","Name":"x1","DeviceIDs":["0"]}]}},` +
		`"Shared":{"DiskMB":7}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r := a.WithResources().TaskResources; len(r) != 1 || r["t"] != a.Job.TaskGroups[0].Tasks[0].Resources {
		t.Errorf("the tasks demand %+v", r)
	}
	if a.AllocatedResources != nil || a.TaskResources != nil || a.DesiredTransition != nil {
		t.Error("the row has changed")
	}
}

func TestAllocation_ShowsRequestsInTheDialect(t *testing.T) {
	for _, c := range []struct {
		row  Allocation
		want string
	}{
		{Allocation{}, `{"Migrate":false,"NoShutdownDelay":false}`},
		{Allocation{Migrate: true}, `{"Migrate":true,"NoShutdownDelay":false}`},
		{Allocation{NoShutdownDelay: true}, `{"Migrate":false,"NoShutdownDelay":true}`},
	} {
		got, err := json.Marshal(c.row.WithResources().DesiredTransition)
		if err != nil || string(got) != c.want {
			t.Errorf("got  %s\nwant %s: %v", got, c.want, err)
		}
	}
}

func TestAllocation_ShowsTheMemoryMaxThatCounts(t *testing.T) {
	job := &Job{TaskGroups: []*TaskGroup{{Name: "g", Tasks: []*Task{
		{Name: "t", Resources: &Resources{MemoryMB: 20, MemoryMaxMB: 40}},
	}}}}
	for bounded, want := range map[bool]int64{false: 40, true: 0} {
		a := &Allocation{TaskGroup: "g", Job: job, NoMemoryMax: bounded}
		got := a.WithResources().AllocatedResources.Tasks["t"].Memory
		if got.MemoryMB != 20 || got.MemoryMaxMB != want {
			t.Errorf("bounded %v: %+v", bounded, got)
		}
	}
}
