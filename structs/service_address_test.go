package structs

import (
	"strings"
	"testing"
	"time"
)

// inConsul gives the group a service in Consul with edits.
func inConsul(edit func(*Service)) func(*Job) {
	return serving(func(s *Service) { s.Provider = ServiceProviderConsul }, edit)
}

func tagged(all map[string]string) func(*Job) {
	return inConsul(func(s *Service) { s.TaggedAddresses = all })
}

func weighted(w ServiceWeights) func(*Job) {
	return inConsul(func(s *Service) { s.Weights = &w })
}

func TestServiceAddresses_NameTheFault(t *testing.T) {
	const onlyConsul = `tagged_addresses and weights are for services with provider = "consul"`
	for _, c := range []struct {
		want string
		edit func(*Job)
	}{
		{onlyConsul, serving(func(s *Service) { s.TaggedAddresses = map[string]string{"lan": "192.0.2.1"} })},
		{onlyConsul, serving(func(s *Service) { s.Weights = &ServiceWeights{} })},
		{"", tagged(map[string]string{
			"lan": "192.0.2.1", "wan_ipv6": "2001:db8::1", "x": "[2001:db8::1]:80", "y": "a.example:80",
			"${a}": "${a}",
		})},
		{`tagged_addresses: "a b": expected 1 to 128 letters`, tagged(map[string]string{"a b": "192.0.2.1"})},
		{`tagged_addresses: "a.example" is neither an IP`, tagged(map[string]string{"lan": "a.example"})},
		{`tagged_addresses: ":80" is neither`, tagged(map[string]string{"lan": ":80"})},
		{`tagged_addresses: "192.0.2.1:0" is neither`, tagged(map[string]string{"lan": "192.0.2.1:0"})},
		{`services: all names, tags and meta has 2`,
			tagged(map[string]string{"lan": "${" + strings.Repeat("x", 20_000)})},
		{"", weighted(ServiceWeights{Passing: maxWeight})},
		{`weights: passing 65536 must be at most`, weighted(ServiceWeights{Passing: maxWeight + 1})},
		{`weights: warning 65536 must be at most`, weighted(ServiceWeights{Warning: maxWeight + 1})},
	} {
		err := testJob(c.edit).Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %.300v, want %q", err, c.want)
		}
	}
}

// inNetwork gives the group of a service a network of its own.
func inNetwork(mode string, edit func(*Service)) func(*Job) {
	return func(j *Job) {
		serving(edit)(j)
		group(func(g *TaskGroup) {
			g.Networks[0].Mode = mode
			if mode == NetworkModeNone {
				g.Networks[0].DynamicPorts = nil
			}
		})(j)
	}
}

func TestAddressMode_AllocNeedsAnAddressOfTheAllocation(t *testing.T) {
	service := func(s *Service) { s.AddressMode = AddressModeAlloc }
	check := func(s *Service) {
		s.Checks = []*ServiceCheck{
			{Type: CheckTCP, AddressMode: AddressModeAlloc, Interval: time.Second, Timeout: time.Second},
		}
	}
	number := func(s *Service) {
		s.AddressMode = AddressModeAlloc
		s.PortLabel = "8080"
	}
	const none = `address_mode "alloc": the allocations of the group have no addresses of their own`
	for _, c := range []struct {
		want string
		edit func(*Job)
	}{
		{"", inNetwork(NetworkModeBridge, service)},
		{"", inNetwork(NetworkModeBridge, check)},
		{"", inNetwork("cni/lab", number)},
		{none, inNetwork(NetworkModeNone, number)},
		{none, inNetwork(NetworkModeHost, service)},
		{none, inNetwork(NetworkModeHost, check)},
		{none, group(func(g *TaskGroup) {
			g.Services = []*Service{{Name: "web", Provider: "berth", AddressMode: AddressModeAlloc}}
		})},
		{`address: address_mode "alloc" is for a service without an address`,
			inNetwork(NetworkModeBridge, func(s *Service) {
				s.AddressMode = AddressModeAlloc
				s.Address = "192.0.2.1"
			})},
	} {
		err := testJob(c.edit).Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %.300v, want %q", err, c.want)
		}
	}
}

func TestServiceWeights_AreAtLeastOne(t *testing.T) {
	j := testJob(weighted(ServiceWeights{Passing: -1}))
	if w := j.TaskGroups[0].Services[0].Weights; *w != (ServiceWeights{Passing: 1, Warning: 1}) {
		t.Errorf("got %+v", w)
	}
}
