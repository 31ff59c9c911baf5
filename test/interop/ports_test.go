package interop

import (
	"reflect"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/defaults"
)

func TestClient_SendsAndReadsDemandsForPorts(t *testing.T) {
	want := []*structs.NetworkResource{{
		Mode:          structs.NetworkModeHost,
		ReservedPorts: []structs.Port{{Label: "admin", Value: 8080, To: 80, HostNetwork: "private"}},
		DynamicPorts:  []structs.Port{{Label: "http", HostNetwork: "default"}},
	}}
	for name, canonicalize := range map[string]bool{
		"as built":                         false,
		"with the defaults of the dialect": true,
	} {
		t.Run(name, func(t *testing.T) {
			c, caller := clientOfFakeServers(t)
			var got *structs.Job
			apitest.On(caller, structs.JobRegister, recordJob(&got))
			job := fullJob()
			job.TaskGroups[0].Networks = []*public.NetworkResource{{
				Mode:          "host",
				ReservedPorts: []public.Port{{Label: "admin", Value: 8080, To: 80, HostNetwork: "private"}},
				DynamicPorts:  []public.Port{{Label: "http"}},
			}}
			if canonicalize {
				job.Canonicalize()
			}
			for range 2 { // what the client has read, it can write back
				if _, _, err := c.Jobs().Register(job, nil); err != nil {
					t.Fatal(err)
				}
				defaults.Canonicalize(got)
				if has := got.TaskGroups[0].Networks; !reflect.DeepEqual(has, want) {
					t.Errorf("the network arrives as %+v", has[0])
				}
				apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: got})
				var err error
				job, _, err = c.Jobs().Info("web/one", nil)
				if err != nil {
					t.Fatal(err)
				}
			}
			n := job.TaskGroups[0].Networks[0]
			if n.Mode != "host" || n.ReservedPorts[0].Value != 8080 || n.DynamicPorts[0].HostNetwork != "default" {
				t.Errorf("the client reads %+v", n)
			}
		})
	}
}

func TestClient_ReadsPorts(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	node := &structs.NodeDetail{Node: structs.Node{
		ID: "n1",
		NodeResources: &structs.NodeResources{
			MinDynamicPort: 1000,
			MaxDynamicPort: 2000,
			NodeNetworks: []*structs.NodeNetworkResource{{
				Mode:   structs.NetworkModeHost,
				Device: "eth0",
				Addresses: []*structs.NodeNetworkAddress{
					{Family: structs.FamilyIPv4, Alias: "default", Address: "10.0.0.1"},
					{Family: structs.FamilyIPv4, Alias: "private", Address: "192.168.0.1"},
				},
			}},
		},
		ReservedResources: &structs.NodeReservedResources{
			Networks: &structs.NodeReservedNetworks{ReservedHostPorts: "22"},
		},
	}}
	apitest.Answer(caller, structs.NodeGet, structs.NodeGetResponse{Node: node})
	read, _, err := c.Nodes().Info("n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := read.NodeResources
	if r.MinDynamicPort != 1000 || r.MaxDynamicPort != 2000 ||
		read.ReservedResources.Networks.ReservedHostPorts != "22" {
		t.Errorf("the client reads %+v and %+v", r, read.ReservedResources)
	}
	want := []*public.NetworkResource{{Mode: "host", Device: "eth0", CIDR: "10.0.0.1/32", IP: "10.0.0.1"}}
	if !reflect.DeepEqual(r.Networks, want) {
		t.Errorf("the client reads %+v", r.Networks)
	}
	apitest.Answer(caller, structs.AllocGet, structs.AllocGetResponse{Alloc: &structs.Allocation{
		ID:        "a1",
		TaskGroup: "g",
		Ports:     []structs.AllocatedPort{{Label: "http", Value: 1001, To: 80, HostIP: "10.0.0.1"}},
	}})
	placed, _, err := c.Allocations().Info("a1", nil)
	if err != nil {
		t.Fatal(err)
	}
	shared := placed.AllocatedResources.Shared
	ports := []public.PortMapping{{Label: "http", Value: 1001, To: 80, HostIP: "10.0.0.1"}}
	if !reflect.DeepEqual(shared.Ports, ports) {
		t.Errorf("the client reads the ports %+v", shared.Ports)
	}
	if len(shared.Networks) != 1 || shared.Networks[0].IP != "10.0.0.1" ||
		shared.Networks[0].DynamicPorts[0].Value != 1001 {
		t.Errorf("the client reads the networks %+v", shared.Networks)
	}
}

// The network of an allocation goes both ways, and so does its state.
func TestClient_SendsAndReadsNetworksOfAllocations(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	var got *structs.Job
	apitest.On(caller, structs.JobRegister, recordJob(&got))
	job := fullJob()
	job.TaskGroups[0].Networks = []*public.NetworkResource{{
		Mode:     "bridge",
		Hostname: "web",
		DNS: &public.DNSConfig{
			Servers:  []string{"10.0.0.53"},
			Searches: []string{"a.b"},
			Options:  []string{"ndots:2"},
		},
	}}
	if _, _, err := c.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	dns := &structs.DNSConfig{
		Servers:  []string{"10.0.0.53"},
		Searches: []string{"a.b"},
		Options:  []string{"ndots:2"},
	}
	has := got.TaskGroups[0].Networks[0]
	if has.Mode != structs.NetworkModeBridge || has.Hostname != "web" || !reflect.DeepEqual(has.DNS, dns) {
		t.Errorf("the network arrives as %+v", has)
	}
	apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: got})
	read, _, err := c.Jobs().Info("web/one", nil)
	if err != nil || !reflect.DeepEqual(read.TaskGroups[0].Networks[0].DNS, job.TaskGroups[0].Networks[0].DNS) {
		t.Errorf("the client reads %+v, %v", read, err)
	}
	apitest.Answer(caller, structs.AllocGet, structs.AllocGetResponse{Alloc: &structs.Allocation{
		ID: "a1",
		NetworkStatus: &structs.AllocNetworkStatus{
			InterfaceName: "eth0",
			Address:       "172.26.64.2",
			DNS:           dns,
		},
	}})
	placed, _, err := c.Allocations().Info("a1", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &public.AllocNetworkStatus{
		InterfaceName: "eth0",
		Address:       "172.26.64.2",
		DNS:           job.TaskGroups[0].Networks[0].DNS,
	}
	if !reflect.DeepEqual(placed.NetworkStatus, want) {
		t.Errorf("the client reads %+v", placed.NetworkStatus)
	}
}
