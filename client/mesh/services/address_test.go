package services

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

// TestSet_FollowsAddressModes offers services of an allocation with a network of its own, whose tasks are in
// one of their driver.
func TestSet_FollowsAddressModes(t *testing.T) {
	const (
		auto  = structs.AddressModeAuto
		host  = structs.AddressModeHost
		alloc = structs.AddressModeAlloc
		inner = structs.AddressModeDriver
	)
	quiet := &driver.Location{Address: "172.17.0.2"}
	loud := &driver.Location{Address: "172.18.0.2", Advertised: true}
	for _, c := range []struct {
		service structs.Service
		check   structs.ServiceCheck
		want    string // of the service and of its check
		at      *driver.Location
	}{
		{structs.Service{AddressMode: auto, PortLabel: "http"}, structs.ServiceCheck{},
			"10.0.0.1:20000 10.0.0.1:20000", quiet},
		{structs.Service{AddressMode: auto, PortLabel: "http"}, structs.ServiceCheck{},
			"172.18.0.2:8080 10.0.0.1:20000", loud},
		{structs.Service{AddressMode: auto, PortLabel: "http", Address: "a.example"}, structs.ServiceCheck{},
			"a.example:20000 a.example:20000", loud},
		{structs.Service{AddressMode: host, PortLabel: "http"}, structs.ServiceCheck{AddressMode: auto},
			"10.0.0.1:20000 172.18.0.2:8080", loud},
		{structs.Service{AddressMode: inner, PortLabel: "http"}, structs.ServiceCheck{AddressMode: inner},
			"172.17.0.2:8080 172.17.0.2:8080", quiet},
		{structs.Service{AddressMode: inner, PortLabel: "9090"}, structs.ServiceCheck{AddressMode: alloc},
			"172.17.0.2:9090 10.99.0.2:9090", quiet},
		{structs.Service{AddressMode: auto, PortLabel: "http"}, structs.ServiceCheck{},
			"10.0.0.1:20000 10.0.0.1:20000", nil},
		{structs.Service{AddressMode: host, PortLabel: "http"}, structs.ServiceCheck{AddressMode: alloc},
			"10.0.0.1:20000 10.99.0.2:8080", nil},
		{structs.Service{AddressMode: alloc, PortLabel: "http"}, structs.ServiceCheck{},
			"10.99.0.2:8080 10.0.0.1:20000", nil},
		{structs.Service{AddressMode: alloc, PortLabel: "http"}, structs.ServiceCheck{AddressMode: alloc},
			"10.99.0.2:8080 10.99.0.2:8080", nil},
		{structs.Service{AddressMode: alloc, PortLabel: "same"}, structs.ServiceCheck{AddressMode: host},
			"10.99.0.2:20001 10.0.0.1:20001", nil},
		{structs.Service{AddressMode: alloc, PortLabel: "9090"},
			structs.ServiceCheck{AddressMode: alloc, PortLabel: "http"}, "10.99.0.2:9090 10.99.0.2:8080", nil},
		{structs.Service{AddressMode: alloc}, structs.ServiceCheck{PortLabel: "http"},
			"10.99.0.2:0 10.0.0.1:20000", nil},
		{structs.Service{AddressMode: auto, PortLabel: "http", Address: "a.example"}, structs.ServiceCheck{},
			"a.example:20000 a.example:20000", nil},
		{structs.Service{AddressMode: auto, PortLabel: "http", Address: "a.example"},
			structs.ServiceCheck{AddressMode: host, PortLabel: "same"}, "a.example:20000 10.0.0.1:20001", nil},
	} {
		service := c.service
		service.Name = "web"
		check := c.check
		check.Type = structs.CheckTCP
		check.Interval = time.Hour
		service.Checks = []*structs.ServiceCheck{&check}
		f := newFixture(t, func(g *structs.TaskGroup) { g.Tasks[0].Services = []*structs.Service{&service} })
		f.alloc.Ports = []structs.AllocatedPort{
			{Label: "http", Value: 20000, To: 8080, HostIP: "10.0.0.1"},
			{Label: "same", Value: 20001, To: -1, HostIP: "10.0.0.1"},
		}
		f.network = &structs.AllocNetworkStatus{Address: "10.99.0.2"}
		f.running["a"] = &runningTask{location: c.at}
		o, err := f.resolve(structs.OwnedService{Owner: "a", Service: &service})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		got := net.JoinHostPort(o.instance.Address, strconv.Itoa(o.instance.Port)) + " " +
			o.checks[0].target.Address
		if got != c.want {
			t.Errorf("%+v: got %s, want %s", c, got, c.want)
		}
	}
}

func TestSet_NeedsANetworkForAddressModeAlloc(t *testing.T) {
	service := &structs.Service{Name: "web", AddressMode: structs.AddressModeAlloc, PortLabel: "http"}
	for _, network := range []*structs.AllocNetworkStatus{nil, {InterfaceName: "lo"}} {
		f := newFixture(t, func(g *structs.TaskGroup) { g.Tasks[0].Services = []*structs.Service{service} })
		f.network = network
		f.begin("a")
		f.checkOffered(t, "without an address")
		if len(f.task.events) != 1 || !strings.Contains(f.task.events[0], "the allocation has no address of its own") {
			t.Errorf("the events are %q", f.task.events)
		}
	}
}

func TestSet_NeedsANetworkOfTheDriverForAddressModeDriver(t *testing.T) {
	service := &structs.Service{Name: "web", AddressMode: structs.AddressModeDriver, PortLabel: "http"}
	f := newFixture(t, func(g *structs.TaskGroup) { g.Tasks[0].Services = []*structs.Service{service} })
	f.begin("a")
	f.checkOffered(t, "in the network of the node")
	const want = "the task is in no network of its driver"
	if len(f.task.events) != 1 || !strings.Contains(f.task.events[0], want) {
		t.Errorf("the events are %q", f.task.events)
	}
	f.Stop("a")
	f.location = &driver.Location{Address: "172.17.0.2"}
	f.begin("a")
	f.checkOffered(t, "in a network of the driver", "web")
}
