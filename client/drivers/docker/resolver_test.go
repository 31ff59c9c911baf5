package docker

import (
	"slices"
	"testing"

	"berth/client/drivers/driver"
	"berth/structs"
)

// A container has the name servers of its group unless its own config names some.
func TestSpec_HasTheResolverOfTheGroup(t *testing.T) {
	f := newFixture(t)
	cfg := f.config()
	task := f.task("a1")
	task.Network = &driver.Network{DNS: &structs.DNSConfig{
		Servers:  []string{"10.0.0.9"},
		Searches: []string{"group.example"},
	}}
	h := f.created(cfg, task, map[string]any{"dns_servers": []any{"10.0.0.1"}}).HostConfig
	if len(h.DNS) != 1 || h.DNS[0].String() != "10.0.0.1" || !slices.Equal(h.DNSSearch, []string{"group.example"}) {
		t.Errorf("got %v and %v", h.DNS, h.DNSSearch)
	}
}
