package report

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestNode_BoundsDevices(t *testing.T) {
	attribute := func(a *structs.DeviceAttribute) *structs.NodeDeviceResource {
		g := gpus("x1", 1)
		g.Attributes = map[string]*structs.DeviceAttribute{"a": a}
		return g
	}
	device := func(d structs.NodeDevice) *structs.NodeDeviceResource {
		g := gpus("x1", 0)
		g.Instances = []*structs.NodeDevice{&d}
		return g
	}
	long := strings.Repeat("x", structs.MaxText+1)
	nan := math.NaN()
	var many []*structs.NodeDeviceResource
	for range structs.MaxDeviceGroups + 1 {
		many = append(many, gpus("x1", 0))
	}
	for name, c := range map[string]struct {
		groups []*structs.NodeDeviceResource
		want   string
	}{
		"valid":          {[]*structs.NodeDeviceResource{gpus("x1", 3), gpus("x2", 1)}, ""},
		"null group":     {[]*structs.NodeDeviceResource{nil}, "device group 1 is null"},
		"group twice":    {[]*structs.NodeDeviceResource{gpus("x1", 1), gpus("x1", 1)}, "of their IDs, each once"},
		"wrong order":    {[]*structs.NodeDeviceResource{gpus("x2", 1), gpus("x1", 1)}, "in the order of their IDs"},
		"no name":        {[]*structs.NodeDeviceResource{gpus("", 1)}, "must not be empty"},
		"a slash":        {[]*structs.NodeDeviceResource{gpus("a/b", 1)}, "must not hold a slash"},
		"many groups":    {many, "129 device groups"},
		"many devices":   {[]*structs.NodeDeviceResource{gpus("x1", structs.MaxDevices+1)}, "1025 devices"},
		"null attribute": {[]*structs.NodeDeviceResource{attribute(nil)}, `attribute "a" is null`},
		"no number":      {[]*structs.NodeDeviceResource{attribute(&structs.DeviceAttribute{Float: &nan})}, `attribute "a" is null or no`},
		"long text": {[]*structs.NodeDeviceResource{attribute(structs.TextAttribute(strings.Repeat("x", structs.MaxDeviceBytes)))},
			"the texts of its device groups have"},
		"long name": {[]*structs.NodeDeviceResource{gpus(strings.Repeat("x", structs.MaxText), 0)}, "the name has"},
		"long ID":   {[]*structs.NodeDeviceResource{device(structs.NodeDevice{ID: long})}, "the ID of a device has"},
		"long description": {[]*structs.NodeDeviceResource{device(structs.NodeDevice{ID: "0", HealthDescription: long})},
			"the description of its health has"},
		"null device": {[]*structs.NodeDeviceResource{{Vendor: "a", Type: "b", Name: "c", Instances: []*structs.NodeDevice{nil}}},
			"device 1 is null"},
		"device twice": {[]*structs.NodeDeviceResource{{
			Vendor:    "a",
			Type:      "b",
			Name:      "c",
			Instances: []*structs.NodeDevice{{ID: "1"}, {ID: "1"}},
		}}, "the devices must be in the order of their IDs"},
	} {
		n := &structs.Node{ID: "n", NodeResources: &structs.NodeResources{Devices: c.groups}}
		err := Node(n)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestHostVolumes_OfANodeAreChecked(t *testing.T) {
	for want, v := range map[string]*structs.HostVolume{
		`path "srv" is not absolute`: {Path: "srv"},
		"it is null":                 nil,
		"bytes":                      {Path: "/" + strings.Repeat("x", structs.MaxText)},
	} {
		n := &structs.Node{ID: "n1", HostVolumes: map[string]*structs.HostVolume{"data": v}}
		if err := Node(n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	many := map[string]*structs.HostVolume{}
	for i := range structs.MaxHostVolumes + 1 {
		many[strings.Repeat("x", i+1)] = &structs.HostVolume{Path: "/srv"}
	}
	if err := Node(&structs.Node{ID: "n1", HostVolumes: many}); err == nil {
		t.Error("a node with too many host volumes is valid")
	}
}

func TestNode_ReportsAreBounded(t *testing.T) {
	for want, n := range map[string]*structs.Node{
		"CPU 9223372036854775807 must be from 0 to 100000000 MHz":  {NodeResources: &structs.NodeResources{CPU: structs.NodeCPUResources{CpuShares: math.MaxInt64}}},
		"memory -1 must be from 0 to 1073741824 MiB":               {NodeResources: &structs.NodeResources{Memory: structs.NodeMemoryResources{MemoryMB: -1}}},
		"disk 17179869185 must be from 0 to":                       {NodeResources: &structs.NodeResources{Disk: structs.NodeDiskResources{DiskMB: structs.MaxDiskMB + 1}}},
		"CPU 18446744073709551615 must be from 0 to 100000000 MHz": {ReservedResources: &structs.NodeReservedResources{CPU: structs.NodeReservedCPU{CpuShares: math.MaxUint64}}},
		"4097 ReservableCpuCores; at most 4096 are allowed": {
			NodeResources: &structs.NodeResources{
				CPU: structs.NodeCPUResources{
					ReservableCpuCores: make([]uint16, 4097),
				},
			},
		},
		"Name has 256 bytes": {Name: strings.Repeat("n", 256)},
		"its attributes, meta and drivers have 1048577 bytes; at most 1": {
			Attributes: map[string]string{"k": strings.Repeat("x", structs.MaxNodeBytes)},
		},
	} {
		n.ID = "n1"
		if err := Node(n); !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
	overflowing := structs.Node{
		NodeResources: &structs.NodeResources{},
		ReservedResources: &structs.NodeReservedResources{
			CPU:    structs.NodeReservedCPU{CpuShares: math.MaxUint64},
			Memory: structs.NodeMemoryResources{MemoryMB: math.MaxInt64},
		},
	}
	if got := overflowing.Available(); got.CPU > 0 || got.MemoryMB > 0 {
		t.Errorf("a node that reserves more than it has offers %+v", got)
	}
}

func TestInstances_BoundTheEndingCalls(t *testing.T) {
	call := &structs.CSIEndingCall{RPC: "ListVolumes"}
	for want, calls := range map[string][]*structs.CSIEndingCall{
		"":                             slices.Repeat([]*structs.CSIEndingCall{call}, structs.MaxEndingCalls),
		"17 EndingCalls":               slices.Repeat([]*structs.CSIEndingCall{call}, structs.MaxEndingCalls+1),
		"EndingCalls: a call is empty": {nil},
		"EndingCalls.RPC has":          {{RPC: strings.Repeat("x", structs.MaxName+1)}},
		"EndingCalls.Volume has":       {{Volume: strings.Repeat("x", structs.MaxText+1)}},
	} {
		i := &structs.CSIPluginInstance{CSIInfo: structs.CSIInfo{PluginID: "p", EndingCalls: calls}}
		err := Instances("n1", []*structs.CSIPluginInstance{i})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestNode_NamesTheFaultOfItsNetworks(t *testing.T) {
	first := func(edit func(*structs.NodeNetworkAddress)) func(*structs.Node) {
		return func(n *structs.Node) { edit(n.NodeResources.NodeNetworks[0].Addresses[0]) }
	}
	if err := Node(withAddresses()); err != nil {
		t.Fatal(err)
	}
	for want, edit := range map[string]func(*structs.Node){
		"network 2 is null": func(n *structs.Node) { n.NodeResources.NodeNetworks[1] = nil },
		`Mode "bridges" is not a mode of networks`: func(n *structs.Node) {
			n.NodeResources.NodeNetworks[0].Mode = "bridges"
		},
		"an address is null": func(n *structs.Node) { n.NodeResources.NodeNetworks[0].Addresses[1] = nil },
		"257 networks; at most 256": func(n *structs.Node) {
			n.NodeResources.NodeNetworks = make([]*structs.NodeNetworkResource, structs.MaxNodeAddresses+1)
		},
		"257 addresses of its networks; at most 256": func(n *structs.Node) {
			n.NodeResources.NodeNetworks[1].Addresses = make([]*structs.NodeNetworkAddress, structs.MaxNodeAddresses-1)
		},
		`Family "" must be one of ipv4, ipv6`: first(func(a *structs.NodeNetworkAddress) { a.Family = "" }),
		`alias "" is not the name`:            first(func(a *structs.NodeNetworkAddress) { a.Alias = "" }),
		`"10.0.0.01" is not an IP address`:    first(func(a *structs.NodeNetworkAddress) { a.Address = "10.0.0.01" }),
		`"fe80::1%eth0" is not an IP address`: first(func(a *structs.NodeNetworkAddress) {
			a.Address = "fe80::1%eth0"
		}),
		`ReservedPorts: "x" is neither`:        first(func(a *structs.NodeNetworkAddress) { a.ReservedPorts = "x" }),
		`ReservedHostPorts: "0" is neither`:    func(n *structs.Node) { n.ReservedResources.Networks.ReservedHostPorts = "0" },
		"the dynamic ports are from 1003 to 2": func(n *structs.Node) { n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = 1003, 2 },
		"the dynamic ports are from 0 to 1003": func(n *structs.Node) { n.NodeResources.MinDynamicPort = 0 },
	} {
		n := withAddresses()
		edit(n)
		if err := Node(n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A node that reports a time without a form in JSON must not make the lists with it fail.
func TestNodeReports_HoldNoTimeThatJSONLacks(t *testing.T) {
	for _, year := range []int{-1, 10_000, 200_000} {
		far := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		n := &structs.Node{ID: "n", Drivers: map[string]*structs.DriverInfo{"exec": {UpdateTime: far}}}
		err := Node(n)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), `driver "exec": the year of UpdateTime`) {
			t.Errorf("year %d: %v", year, err)
		}
		near := time.Unix(5, 0).UTC()
		state := &structs.TaskState{
			State:       structs.TaskRunning,
			LastRestart: far,
			StartedAt:   near,
			FinishedAt:  far,
		}
		bounded := (&structs.AllocClientUpdate{ID: "a", TaskStates: map[string]*structs.TaskState{"t": state}}).Bounded()
		if _, err := json.Marshal(bounded); err != nil || bounded.TaskStates["t"].StartedAt != near {
			t.Errorf("year %d: %v, %+v", year, err, bounded.TaskStates["t"])
		}
	}
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	n := &structs.Node{ID: "n", Drivers: map[string]*structs.DriverInfo{"exec": {UpdateTime: last}, "raw": {}}}
	if err := Node(n); err != nil {
		t.Error(err)
	}
}
