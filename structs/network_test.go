package structs

import (
	"reflect"
	"strings"
	"testing"
)

func TestParsePorts_ReadsPortsAndRanges(t *testing.T) {
	for text, want := range map[string]PortRanges{
		"":                 nil,
		" ":                nil,
		"22":               {{22, 22}},
		"22, 80,8000-8100": {{22, 22}, {80, 80}, {8000, 8100}},
		"1-65535":          {{1, MaxPort}},
	} {
		got, err := ParsePorts(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"0", "65536", "80-22", "-1", "1-", "a", "22,", ",", "1-2-3", "0x10", "99999999999999999999",
		strings.Repeat("1,", MaxPortsText/2) + "1",
	} {
		if got, err := ParsePorts(text); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.20q: got %v, %.300v", text, got, err)
		}
	}
	ranges, _ := ParsePorts("22,8000-8100")
	for port, want := range map[int]bool{21: false, 22: true, 7999: false, 8000: true, 8100: true, 8101: false} {
		if ranges.Has(port) != want {
			t.Errorf("port %d is among them: %v, want %v", port, !want, want)
		}
	}
}

// networked gives the group of a job a network.
func networked(n NetworkResource) func(*Job) {
	return group(func(g *TaskGroup) { g.Networks = []*NetworkResource{&n} })
}

func dynamic(ports ...Port) func(*Job) { return networked(NetworkResource{DynamicPorts: ports}) }

// withAddresses returns a node with two addresses of the default network and one of another.
func withAddresses() *Node {
	return &Node{
		ID: "n1",
		NodeResources: &NodeResources{
			MinDynamicPort: 1000,
			MaxDynamicPort: 1003,
			NodeNetworks: []*NodeNetworkResource{
				{
					Mode:       NetworkModeHost,
					Device:     "eth0",
					MacAddress: "02:00:00:00:00:01",
					Addresses: []*NodeNetworkAddress{
						{Family: FamilyIPv4, Alias: DefaultHostNetwork, Address: "10.0.0.1", ReservedPorts: "1000"},
						{Family: FamilyIPv6, Alias: DefaultHostNetwork, Address: "2001:db8::1"},
					},
				},
				{
					Mode:      NetworkModeHost,
					Device:    "eth1",
					Addresses: []*NodeNetworkAddress{{Family: FamilyIPv4, Alias: "private", Address: "192.168.0.1"}},
				},
			},
		},
		ReservedResources: &NodeReservedResources{
			Networks: &NodeReservedNetworks{ReservedHostPorts: "22,4646-4648"},
		},
	}
}

// TestNodePorts_RejectsWhatIsNotFree checks the rule by which the entry of a plan accepts ports.
func TestNodePorts_RejectsWhatIsNotFree(t *testing.T) {
	j := testJob(networked(NetworkResource{
		ReservedPorts: []Port{{Label: "ssh", Value: 2222, To: 22}},
		DynamicPorts:  []Port{{Label: "http", To: -1}, {Label: "db", HostNetwork: "private"}},
	}))
	j.Canonicalize()
	g := j.TaskGroups[0]
	const first, private = "10.0.0.1", "192.168.0.1"
	given := func() *Allocation {
		return &Allocation{ID: "a", Ports: []AllocatedPort{
			{Label: "ssh", Value: 2222, To: 22, HostIP: first},
			{Label: "http", Value: 1001, To: 1001, HostIP: first},
			{Label: "db", Value: 1001, HostIP: private},
		}}
	}
	other := &Allocation{ID: "b", Ports: []AllocatedPort{{Label: "x", Value: 1002, HostIP: first}}}
	for want, edit := range map[string]func([]AllocatedPort) []AllocatedPort{
		"": func(p []AllocatedPort) []AllocatedPort { return p },
		`group "g" demands 3 ports and is given 2`: func(p []AllocatedPort) []AllocatedPort { return p[1:] },
		`port "ssh" is not given`: func(p []AllocatedPort) []AllocatedPort {
			p[0].Label = "other"
			return p
		},
		`port "ssh" is given as another one`: func(p []AllocatedPort) []AllocatedPort {
			p[0].Value = 2223
			return p
		},
		`port "http" is given as another one`: func(p []AllocatedPort) []AllocatedPort {
			p[1].To = 0
			return p
		},
		`it has no address 192.168.0.1 in host network "default"`: func(p []AllocatedPort) []AllocatedPort {
			p[1].HostIP = private
			return p
		},
		"it reserves port 10.0.0.1:1000": func(p []AllocatedPort) []AllocatedPort {
			p[1].Value, p[1].To = 1000, 1000
			return p
		},
		"port 1004 is not one of its dynamic ports, 1000 to 1003": func(p []AllocatedPort) []AllocatedPort {
			p[2].Value = 1004
			return p
		},
		"allocation b has port 10.0.0.1:1002": func(p []AllocatedPort) []AllocatedPort {
			p[1].Value, p[1].To = 1002, 1002
			return p
		},
	} {
		a := given()
		a.Ports = edit(a.Ports)
		use := PortUse{}
		use.Add(other)
		ports := NewNodePorts(withAddresses(), use)
		if got := ports.Rejection(a, g, nil); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		stopped := map[string]bool{"b": true}
		if got := ports.Rejection(a, g, stopped); strings.HasPrefix(want, "allocation b") && got != "" {
			t.Errorf("with b stopped: %s", got)
		}
	}
	reserving := withAddresses()
	reserving.ReservedResources.Networks.ReservedHostPorts = "2000-3000"
	if got := NewNodePorts(reserving, PortUse{}).Rejection(given(), g, nil); got !=
		"it reserves port 10.0.0.1:2222" {
		t.Errorf("got %q", got)
	}
	two := testJob(dynamic(Port{Label: "a"}, Port{Label: "b"}))
	two.Canonicalize()
	twice := &Allocation{Ports: []AllocatedPort{
		{Label: "a", Value: 1001, HostIP: first},
		{Label: "b", Value: 1001, HostIP: first},
	}}
	if got := NewNodePorts(withAddresses(), PortUse{}).Rejection(twice, two.TaskGroups[0], nil); got !=
		"port 10.0.0.1:1001 is given twice" {
		t.Errorf("got %q", got)
	}
}

func TestNetwork_Defaults(t *testing.T) {
	j := testJob(networked(NetworkResource{
		ReservedPorts: []Port{{Label: "a", Value: 80}},
		DynamicPorts:  []Port{{Label: "b", HostNetwork: "public"}},
	}))
	j.Canonicalize()
	want := &NetworkResource{
		Mode:          NetworkModeHost,
		ReservedPorts: []Port{{Label: "a", Value: 80, HostNetwork: DefaultHostNetwork}},
		DynamicPorts:  []Port{{Label: "b", HostNetwork: "public"}},
	}
	if got := j.TaskGroups[0].Networks[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if low, high := new(Node).DynamicPorts(); low != DefaultMinDynamicPort || high != DefaultMaxDynamicPort {
		t.Errorf("a node has dynamic ports from %d to %d", low, high)
	}
}

func TestWithResources_ShowsPorts(t *testing.T) {
	a := &Allocation{Ports: []AllocatedPort{
		{Label: "a", Value: 1, HostIP: "10.0.0.1"},
		{Label: "b", Value: 2, To: 3, HostIP: "10.0.0.2"},
		{Label: "c", Value: 4, HostIP: "10.0.0.1"},
	}}
	shared := a.WithResources().AllocatedResources.Shared
	want := []*NetworkResource{
		{
			Mode:         NetworkModeHost,
			IP:           "10.0.0.1",
			DynamicPorts: []Port{{Label: "a", Value: 1}, {Label: "c", Value: 4}},
		},
		{Mode: NetworkModeHost, IP: "10.0.0.2", DynamicPorts: []Port{{Label: "b", Value: 2, To: 3}}},
	}
	if !reflect.DeepEqual(shared.Ports, a.Ports) || !reflect.DeepEqual(shared.Networks, want) {
		t.Errorf("got %+v", shared)
	}
}

func FuzzParsePorts(f *testing.F) {
	for _, s := range []string{"", "22", "22,80-90", "1-65535, 5", "-", "9-1", "0,1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ranges, err := ParsePorts(s)
		if err != nil && ranges != nil {
			t.Errorf("%q: got %v and %v", s, ranges, err)
		}
		if ranges.Has(0) || ranges.Has(MaxPort+1) {
			t.Errorf("%q has a port that no address has", s)
		}
	})
}
