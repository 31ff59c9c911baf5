package structs

import (
	"fmt"
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
func static(ports ...Port) func(*Job)  { return networked(NetworkResource{ReservedPorts: ports}) }

func TestNetwork_NamesTheFault(t *testing.T) {
	many := make([]Port, MaxGroupPorts+1)
	for i := range many {
		many[i].Label = fmt.Sprint("p", i)
	}
	for _, c := range []struct {
		want string
		edit func(*Job)
	}{
		{"", networked(NetworkResource{})},
		{"", networked(NetworkResource{Mode: "host"})},
		{"", dynamic(Port{Label: "http"}, Port{Label: "web-admin", To: 80, HostNetwork: "public"})},
		{"", dynamic(Port{Label: "http", To: -1})},
		{"", static(Port{Label: "a", Value: 80}, Port{Label: "b", Value: 80, HostNetwork: "private"})},
		{"", dynamic(many[1:]...)},
		{"", networked(NetworkResource{Mode: "bridge", DynamicPorts: []Port{{Label: "a"}}, Hostname: "a.b-c"})},
		{"", networked(NetworkResource{Mode: "none", Hostname: "${NOMAD_ALLOC_ID}"})},
		{"", networked(NetworkResource{Mode: "cni/lab-1.x", DynamicPorts: []Port{{Label: "a"}}})},
		{"", networked(NetworkResource{DNS: &DNSConfig{
			Servers:  []string{"10.0.0.1", "fd00::1", "${meta.dns}"},
			Searches: []string{"a.b", "."},
			Options:  []string{"ndots:2"},
		}})},
		{`network: mode "cni/" is none of "host", "bridge", "none" and "cni/NAME"`,
			networked(NetworkResource{Mode: "cni/"})},
		{`network: mode "cni/../x" is none of`, networked(NetworkResource{Mode: "cni/../x"})},
		{`network: mode "Bridge" is none of`, networked(NetworkResource{Mode: "Bridge"})},
		{`a network with mode "none" has no ports`,
			networked(NetworkResource{Mode: "none", DynamicPorts: []Port{{Label: "a"}}})},
		{`network: hostname: the tasks have the name of the node with mode "host"`,
			networked(NetworkResource{Hostname: "a"})},
		{`network: hostname "-a" must be a name`, networked(NetworkResource{Mode: "none", Hostname: "-a"})},
		{`network: hostname "aaaaaaaa`, networked(NetworkResource{Mode: "none", Hostname: strings.Repeat("a", 65)})},
		{`network: dns: servers 1: "dns.example" is not an IP address`,
			networked(NetworkResource{DNS: &DNSConfig{Servers: []string{"dns.example"}}})},
		{`network: dns: searches 1: "" is not a domain`,
			networked(NetworkResource{DNS: &DNSConfig{Searches: []string{""}}})},
		{`network: dns: options 1: "a\nnameserver 1.1.1.1" is not an option`,
			networked(NetworkResource{DNS: &DNSConfig{Options: []string{"a\nnameserver 1.1.1.1"}}})},
		{"network: dns: 17 servers; at most 16",
			networked(NetworkResource{DNS: &DNSConfig{Servers: make([]string, MaxResolvers+1)}})},
		{"", func(j *Job) {
			networked(NetworkResource{Mode: "bridge"})(j)
			group(func(g *TaskGroup) { g.Tasks[0].Driver = "docker" })(j)
		}},
		{"network: device, cidr and ip are not settings", networked(NetworkResource{Device: "eth0"})},
		{"network: device, cidr and ip are not settings", networked(NetworkResource{IP: "10.0.0.1"})},
		{"network 1 is null", group(func(g *TaskGroup) { g.Networks = []*NetworkResource{nil} })},
		{"2 networks; a group has at most one", group(func(g *TaskGroup) {
			g.Networks = []*NetworkResource{{}, {}}
		})},
		{"network: 129 ports; at most 128", dynamic(many...)},
		{`network: port "": the label must be`, dynamic(Port{})},
		{`port "a b": the label must be`, dynamic(Port{Label: "a b"})},
		{"the label must be 1 to 64", dynamic(Port{Label: strings.Repeat("a", 65)})},
		{"the label must be 1 to 64", dynamic(Port{Label: strings.Repeat("a", 1<<20)})},
		{`port "a": port "a" has the same name in variables`, dynamic(Port{Label: "a"}, Port{Label: "a"})},
		{`port "a_b": port "a-b" has the same name`, dynamic(Port{Label: "a-b"}, Port{Label: "a_b"})},
		{`port "a": to 65536 must be at most 65535`, dynamic(Port{Label: "a", To: MaxPort + 1})},
		{`port "a": to -2 must be at least -1`, dynamic(Port{Label: "a", To: -2})},
		{`port "a": Value 80: a dynamic port has none`, dynamic(Port{Label: "a", Value: 80})},
		{`host_network "a b" must be`, dynamic(Port{Label: "a", HostNetwork: "a b"})},
		{`port "a": static 0 must be at least 1`, static(Port{Label: "a"})},
		{`port "a": static 65536 must be at most 65535`, static(Port{Label: "a", Value: MaxPort + 1})},
		{
			`port "b": static 80 is that of port "a" too`,
			static(Port{Label: "a", Value: 80}, Port{Label: "b", Value: 80, HostNetwork: "default"}),
		},
	} {
		err := testJob(c.edit).Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("a valid network: %v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %.300v, want %s", err, c.want)
		case err != nil && len(err.Error()) > MaxErrorText:
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

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

func TestNode_NamesTheFaultOfItsNetworks(t *testing.T) {
	first := func(edit func(*NodeNetworkAddress)) func(*Node) {
		return func(n *Node) { edit(n.NodeResources.NodeNetworks[0].Addresses[0]) }
	}
	if err := withAddresses().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, edit := range map[string]func(*Node){
		"network 2 is null": func(n *Node) { n.NodeResources.NodeNetworks[1] = nil },
		`Mode "bridges" is not a mode of networks`: func(n *Node) {
			n.NodeResources.NodeNetworks[0].Mode = "bridges"
		},
		"an address is null": func(n *Node) { n.NodeResources.NodeNetworks[0].Addresses[1] = nil },
		"257 networks; at most 256": func(n *Node) {
			n.NodeResources.NodeNetworks = make([]*NodeNetworkResource, MaxNodeAddresses+1)
		},
		"257 addresses of its networks; at most 256": func(n *Node) {
			n.NodeResources.NodeNetworks[1].Addresses = make([]*NodeNetworkAddress, MaxNodeAddresses-1)
		},
		`Family "" must be one of ipv4, ipv6`: first(func(a *NodeNetworkAddress) { a.Family = "" }),
		`alias "" is not the name`:            first(func(a *NodeNetworkAddress) { a.Alias = "" }),
		`"10.0.0.01" is not an IP address`:    first(func(a *NodeNetworkAddress) { a.Address = "10.0.0.01" }),
		`"fe80::1%eth0" is not an IP address`: first(func(a *NodeNetworkAddress) {
			a.Address = "fe80::1%eth0"
		}),
		`ReservedPorts: "x" is neither`:        first(func(a *NodeNetworkAddress) { a.ReservedPorts = "x" }),
		`ReservedHostPorts: "0" is neither`:    func(n *Node) { n.ReservedResources.Networks.ReservedHostPorts = "0" },
		"the dynamic ports are from 1003 to 2": func(n *Node) { n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = 1003, 2 },
		"the dynamic ports are from 0 to 1003": func(n *Node) { n.NodeResources.MinDynamicPort = 0 },
	} {
		n := withAddresses()
		edit(n)
		if err := n.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
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
