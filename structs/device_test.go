package structs

import (
	"encoding/json"
	"reflect"
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
