package devices

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/client/drivers/protocol/device"
	"berth/client/drivers/protocol/shared"
	"berth/structs"
	"berth/structs/nodecalls"
)

func statsGroup(name string, ids ...string) *nodecalls.DeviceGroupStats {
	g := &nodecalls.DeviceGroupStats{
		Vendor:        "acme",
		Type:          "gpu",
		Name:          name,
		InstanceStats: map[string]*nodecalls.DeviceStats{},
	}
	for _, id := range ids {
		g.InstanceStats[id] = &nodecalls.DeviceStats{Summary: &nodecalls.StatValue{Desc: id}}
	}
	return g
}

// shown writes groups as "name: id id".
func shown(groups []*nodecalls.DeviceGroupStats) []string {
	var all []string
	for _, g := range groups {
		all = append(all, g.Name+": "+strings.Join(slices.Sorted(maps.Keys(g.InstanceStats)), " "))
	}
	return all
}

func TestStatsOf_ChoosesTheTasksDevices(t *testing.T) {
	m := newManager(hclog.NewNullLogger())
	m.addSource("one", &still{})
	m.addSource("two", &still{})
	m.setStats("one", []*nodecalls.DeviceGroupStats{statsGroup("x1", "0", "1", "2"), statsGroup("x2", "0")})
	m.setStats("two", []*nodecalls.DeviceGroupStats{statsGroup("x3", "0", "1")})
	has := func(name string, ids ...string) *structs.AllocatedDeviceResource {
		return &structs.AllocatedDeviceResource{Vendor: "acme", Type: "gpu", Name: name, DeviceIDs: ids}
	}
	for name, c := range map[string]struct {
		devices []*structs.AllocatedDeviceResource
		want    []string
	}{
		"none":                        {nil, nil},
		"some of a group":             {[]*structs.AllocatedDeviceResource{has("x1", "0", "2")}, []string{"x1: 0 2"}},
		"of two plugins":              {[]*structs.AllocatedDeviceResource{has("x3", "1"), has("x1", "1")}, []string{"x3: 1", "x1: 1"}},
		"a device without statistics": {[]*structs.AllocatedDeviceResource{has("x1", "9"), has("x2", "0", "9")}, []string{"x2: 0"}},
		"a group without statistics":  {[]*structs.AllocatedDeviceResource{has("x9", "0")}, nil},
	} {
		if got := shown(m.StatsOf(c.devices)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	clear(m.StatsOf([]*structs.AllocatedDeviceResource{has("x1", "0")})[0].InstanceStats)
	clear(m.Stats()[0].InstanceStats)
	if got, want := shown(m.Stats()), []string{"x1: 0 1 2", "x2: 0", "x3: 0 1"}; !slices.Equal(got, want) {
		t.Errorf("all are %q, want %q: the maps of an answer are the caller's", got, want)
	}
	m.setStats("one", nil) // its plugin has ended
	got := shown(m.StatsOf([]*structs.AllocatedDeviceResource{has("x1", "0"), has("x3", "0")}))
	if !slices.Equal(got, []string{"x3: 0"}) {
		t.Errorf("after the end of a plugin: %q", got)
	}
}

func TestStatsOf_ConvertsThoseOfAPlugin(t *testing.T) {
	at := time.Unix(77, 0).UTC()
	deep := &shared.StatObject{}
	for range 20 {
		deep = &shared.StatObject{Nested: map[string]*shared.StatObject{"n": deep}}
	}
	instance := &device.DeviceStats{
		Summary: &shared.StatValue{
			IntNumeratorVal:   wrapperspb.Int64(3),
			IntDenominatorVal: wrapperspb.Int64(4),
			Unit:              "MiB",
		},
		Stats: &shared.StatObject{
			Nested:     map[string]*shared.StatObject{"deep": deep},
			Attributes: map[string]*shared.StatValue{"ok": {BoolVal: wrapperspb.Bool(true)}, "null": nil},
		},
		Timestamp: timestamppb.New(at),
	}
	answer := func(instances map[string]*device.DeviceStats) *device.StatsResponse {
		return &device.StatsResponse{Groups: []*device.DeviceGroupStats{{
			Vendor: "acme", Type: "gpu", Name: "x1",
			InstanceStats: instances,
		}}}
	}
	groups, err := statsOf(answer(map[string]*device.DeviceStats{"0": instance, "1": nil}))
	if err != nil || len(groups) != 1 || groups[0].ID() != "acme/gpu/x1" {
		t.Fatalf("got %+v, %v", groups, err)
	}
	got := groups[0].InstanceStats["0"]
	if *got.Summary.IntNumeratorVal != 3 || *got.Summary.IntDenominatorVal != 4 || got.Summary.Unit != "MiB" ||
		!*got.Stats.Attributes["ok"].BoolVal || !got.Timestamp.Equal(at) {
		t.Errorf("got %+v", got)
	}
	depth := 1
	for o := got.Stats.Nested["deep"]; o != nil; o = o.Nested["n"] {
		depth++
	}
	if depth != maxStatsDepth+1 {
		t.Errorf("the statistics have %d levels", depth)
	}
	if got.Stats.Attributes["null"] == nil {
		t.Error("a value that the plugin leaves out is nil")
	}
	if none := groups[0].InstanceStats["1"]; none.Timestamp.IsZero() || none.Summary == nil || none.Stats == nil {
		t.Errorf("statistics that the plugin leaves out are %+v", none)
	}
	many := map[string]*device.DeviceStats{}
	for i := range structs.MaxDevices + 1 {
		many[strconv.Itoa(i)] = instance
	}
	large := &device.DeviceStats{Stats: &shared.StatObject{Attributes: map[string]*shared.StatValue{}}}
	for i := range maxStats + 1 {
		large.Stats.Attributes[strconv.Itoa(i)] = instance.Summary
	}
	for want, bad := range map[string]*device.StatsResponse{
		"of more than 1024 devices":     answer(many),
		`device "0" has more than 1024`: answer(map[string]*device.DeviceStats{"0": large}),
		"of 129 groups: at most 128":    {Groups: make([]*device.DeviceGroupStats, structs.MaxDeviceGroups+1)},
	} {
		_, err := statsOf(bad)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
