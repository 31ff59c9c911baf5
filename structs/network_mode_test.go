package structs

import (
	"reflect"
	"strings"
	"testing"
)

func TestAllocNetworkStatus_IsBounded(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	many := make([]string, MaxResolvers+1)
	fits := &AllocNetworkStatus{
		InterfaceName: "eth0",
		Address:       "10.0.0.1",
		DNS:           &DNSConfig{Servers: []string{"10.0.0.2"}},
	}
	u := &AllocClientUpdate{ID: "a", NetworkStatus: fits}
	if u.Bounded() != u || !reflect.DeepEqual(fits.Bounded(), fits) {
		t.Error("a usual status is cut")
	}
	for name, s := range map[string]*AllocNetworkStatus{
		"interface": {InterfaceName: long},
		"address":   {Address: long},
		"servers":   {DNS: &DNSConfig{Servers: many}},
		"a search":  {DNS: &DNSConfig{Searches: []string{long}}},
		"options":   {DNS: &DNSConfig{Options: many}},
	} {
		u := &AllocClientUpdate{ID: "a", NetworkStatus: s}
		c := u.Bounded()
		c.NetworkStatus.InterfaceName = strings.TrimSuffix(c.NetworkStatus.InterfaceName, "…")
		c.NetworkStatus.Address = strings.TrimSuffix(c.NetworkStatus.Address, "…")
		if d := c.NetworkStatus.DNS; d != nil && len(d.Searches) > 0 {
			d.Searches[0] = strings.TrimSuffix(d.Searches[0], "…")
		}
		if c == u || !c.NetworkStatus.bounded() {
			t.Errorf("%s: got %+v", name, c.NetworkStatus)
		}
	}
}

func TestNode_NetworkModesAreInOrder(t *testing.T) {
	n := &Node{NodeResources: &NodeResources{NodeNetworks: []*NodeNetworkResource{
		{Mode: "cni/b"}, nil, {Mode: "host"}, {Mode: "bridge"}, {}, {Mode: "cni/b"}, {Mode: "cni/a"},
	}}}
	if got := strings.Join(n.NetworkModes(), " "); got != "bridge cni/a cni/b" {
		t.Errorf("got %s", got)
	}
	if (&Node{}).NetworkModes() != nil {
		t.Error("a node without resources has modes")
	}
}
