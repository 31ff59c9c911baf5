package devices

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/client/drivers/protocol/device"
	"berth/client/drivers/protocol/shared"
	"berth/structs"
)

func fingerprint(edit func(*device.DeviceGroup)) *device.FingerprintResponse {
	g := &device.DeviceGroup{
		Vendor:     "acme",
		DeviceType: "gpu",
		DeviceName: "x1",
		Devices: []*device.DetectedDevice{
			{ID: "b", Healthy: true, HwLocality: &device.DeviceLocality{PciBusId: "0:1"}},
			{ID: "a", HealthDescription: "hot"},
		},
		Attributes: map[string]*shared.Attribute{
			"memory": {Value: &shared.Attribute_IntVal{IntVal: 11}, Unit: "GiB"},
			"share":  {Value: &shared.Attribute_FloatVal{FloatVal: 0.5}},
			"driver": {Value: &shared.Attribute_StringVal{StringVal: "v1"}},
			"ecc":    {Value: &shared.Attribute_BoolVal{BoolVal: true}},
		},
	}
	edit(g)
	return &device.FingerprintResponse{DeviceGroup: []*device.DeviceGroup{g}}
}

func TestGroupsOf_ConvertsAFingerprint(t *testing.T) {
	groups, err := groupsOf(fingerprint(func(*device.DeviceGroup) {}))
	if err != nil {
		t.Fatal(err)
	}
	g := groups[0]
	if g.ID() != "acme/gpu/x1" || len(g.Instances) != 2 || g.Instances[0].ID != "a" ||
		g.Instances[0].HealthDescription != "hot" || g.Instances[1].Locality.PciBusID != "0:1" {
		t.Errorf("got %+v", g)
	}
	for name, want := range map[string]string{
		"memory": "11 GiB",
		"share":  "0.5",
		"driver": "v1",
		"ecc":    "true",
	} {
		if got := g.Attributes[name].Text(); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestGroupsOf_RejectsBadFingerprints(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for name, edit := range map[string]func(*device.DeviceGroup){
		"no vendor":      func(g *device.DeviceGroup) { g.Vendor = "" },
		"a slash":        func(g *device.DeviceGroup) { g.DeviceName = "a/b" },
		"a long type":    func(g *device.DeviceGroup) { g.DeviceType = long },
		"no ID":          func(g *device.DeviceGroup) { g.Devices[0].ID = "" },
		"a long ID":      func(g *device.DeviceGroup) { g.Devices[0].ID = long },
		"an ID twice":    func(g *device.DeviceGroup) { g.Devices[0].ID = "a" },
		"long attribute": func(g *device.DeviceGroup) { g.Attributes[long] = g.Attributes["ecc"] },
		"a long value": func(g *device.DeviceGroup) {
			g.Attributes["driver"].Value = &shared.Attribute_StringVal{StringVal: long}
		},
		"no number": func(g *device.DeviceGroup) {
			g.Attributes["share"].Value = &shared.Attribute_FloatVal{FloatVal: math.Inf(1)}
		},
		"many devices": func(g *device.DeviceGroup) {
			g.Devices = make([]*device.DetectedDevice, structs.MaxDevices+1)
		},
		"many attributes": func(g *device.DeviceGroup) {
			for i := range structs.MaxDeviceAttributes {
				g.Attributes[strings.Repeat("y", i)] = g.Attributes["ecc"]
			}
		},
	} {
		groups, err := groupsOf(fingerprint(edit))
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: got %+v, %v", name, groups, err)
		}
	}
	twice := fingerprint(func(*device.DeviceGroup) {})
	twice.DeviceGroup = append(twice.DeviceGroup, twice.DeviceGroup[0])
	if _, err := groupsOf(twice); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a group twice: %v", err)
	}
	twice.DeviceGroup = make([]*device.DeviceGroup, structs.MaxDeviceGroups+1)
	if _, err := groupsOf(twice); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("too many groups: %v", err)
	}
}

func TestReservationOf_RejectsBadOnes(t *testing.T) {
	mount := func(task, host string) *device.ContainerReservation {
		return &device.ContainerReservation{Mounts: []*device.Mount{{TaskPath: task, HostPath: host}}}
	}
	file := func(task, host, permissions string) *device.ContainerReservation {
		return &device.ContainerReservation{
			Devices: []*device.DeviceSpec{{TaskPath: task, HostPath: host, Permissions: permissions}},
		}
	}
	variable := func(name, value string) *device.ContainerReservation {
		return &device.ContainerReservation{Envs: map[string]string{name: value}}
	}
	for name, c := range map[string]struct {
		r     *device.ContainerReservation
		valid bool
	}{
		"mount":                   {mount("/a", "/b"), true},
		"relative mount":          {mount("a", "/b"), false},
		"unclean mount":           {mount("/a", "/b/../c"), false},
		"device":                  {file("/dev/a", "/dev/b", "rw"), true},
		"device of any use":       {file("/dev/a", "/dev/b", ""), true},
		"relative device":         {file("/dev/a", "dev/b", "rw"), false},
		"wrong permissions":       {file("/dev/a", "/dev/b", "rx"), false},
		"variable":                {variable("A", "b"), true},
		"variable without a name": {variable("", "b"), false},
		"variable with a sign":    {variable("A=", "b"), false},
		"variable with a zero":    {variable("A", "b\x00"), false},
		"long variable":           {variable("A", strings.Repeat("b", maxValue+1)), false},
		"too many mounts": {
			&device.ContainerReservation{Mounts: make([]*device.Mount, maxMounts+1)}, false,
		},
	} {
		if _, err := reservationOf(c.r); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatsOf_BoundsStatistics(t *testing.T) {
	object := &shared.StatObject{Attributes: map[string]*shared.StatValue{}}
	for i := range maxStats + 1 {
		object.Attributes[strings.Repeat("x", i)] = &shared.StatValue{}
	}
	nested := &shared.StatObject{}
	for range 100 {
		nested = &shared.StatObject{Nested: map[string]*shared.StatObject{"n": nested}}
	}
	stats := func(s *device.DeviceStats) *device.StatsResponse {
		return &device.StatsResponse{Groups: []*device.DeviceGroupStats{{
			Vendor:        "v",
			Type:          "t",
			Name:          "n",
			InstanceStats: map[string]*device.DeviceStats{"0": s},
		}}}
	}
	if _, err := statsOf(stats(&device.DeviceStats{Stats: object})); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("too many statistics: %v", err)
	}
	groups, err := statsOf(stats(&device.DeviceStats{
		Stats:   nested,
		Summary: &shared.StatValue{FloatNumeratorVal: wrapperspb.Double(math.NaN())},
	}))
	if err != nil {
		t.Fatal(err)
	}
	got := groups[0].InstanceStats["0"]
	if got.Summary.FloatNumeratorVal != nil || got.Timestamp.IsZero() {
		t.Errorf("a statistic that is no number: %+v", got)
	}
	depth := 0
	for o := got.Stats; o != nil; o = o.Nested["n"] {
		depth++
	}
	if depth > maxStatsDepth+1 {
		t.Errorf("statistics are %d deep", depth)
	}
}
