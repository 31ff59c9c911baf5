package consulacl

import (
	"slices"
	"testing"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/structs"
	"berth/test/consultest"
)

func ingress(port int) *structs.Gateway {
	return &structs.Gateway{Ingress: &structs.GatewayIngress{
		TLS: &structs.GatewayTLS{Enabled: true, TLSMinVersion: "TLSv1_2"},
		Listeners: []*structs.GatewayListener{{
			Port:     port,
			Protocol: "tcp",
			Services: []*structs.GatewayIngressService{{Name: "web"}},
		}},
	}}
}

// mustReadIngress returns the entry of the gateway edge.
func mustReadIngress(t *testing.T, a *consultest.Agent) *api.IngressGatewayConfigEntry {
	t.Helper()
	entry, _, err := a.API.ConfigEntries().Get(api.IngressGateway, "edge", nil)
	if err != nil {
		t.Fatal(err)
	}
	return entry.(*api.IngressGatewayConfigEntry)
}

func TestSetGateway_WritesOnlyChangesAndKeepsTheRest(t *testing.T) {
	a := consultest.Start(t, consultest.Options{ACLs: true})
	c := clientOf(t, a.Addr, a.Token(`mesh = "write"
service_prefix "" { policy = "read" }`))
	mustSet := func(service string, g *structs.Gateway) {
		t.Helper()
		if err := c.SetGateway(t.Context(), service, g); err != nil {
			t.Fatal(err)
		}
	}
	mustSet("edge", ingress(8080))
	first := mustReadIngress(t, a)
	if first.Listeners[0].Port != 8080 || first.Listeners[0].Services[0].Name != "web" || !first.TLS.Enabled ||
		first.TLS.TLSMinVersion != "TLSv1_2" || first.Meta[consul.MetaSource] != "berth" {
		t.Errorf("Consul has the entry %+v", first)
	}
	mustSet("edge", ingress(8080))
	if again := mustReadIngress(t, a); again.ModifyIndex != first.ModifyIndex {
		t.Error("the same entry was written again")
	}
	first.Defaults = &api.IngressServiceConfig{MaxConnections: new(uint32(7))}
	first.Meta["owner"] = "team"
	if _, _, err := a.API.ConfigEntries().Set(first, nil); err != nil {
		t.Fatal(err)
	}
	mustSet("edge", ingress(9090))
	changed := mustReadIngress(t, a)
	if changed.Listeners[0].Port != 9090 || changed.Defaults == nil || changed.Meta["owner"] != "team" {
		t.Errorf("the changed entry is %+v", changed)
	}
	linked := &structs.GatewayTerminating{Services: []*structs.GatewayLinkedService{
		{Name: "old", CAFile: "/ca.pem", SNI: "old.example"},
	}}
	for range 2 {
		mustSet("out", &structs.Gateway{Terminating: linked})
	}
	entry, _, err := a.API.ConfigEntries().Get(api.TerminatingGateway, "out", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []api.LinkedService{{Name: "old", CAFile: "/ca.pem", SNI: "old.example"}}
	if got := entry.(*api.TerminatingGatewayConfigEntry).Services; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSetGateway_NeedsItsRights(t *testing.T) {
	a := consultest.Start(t, consultest.Options{ACLs: true})
	c := clientOf(t, a.Addr, a.Token(`service_prefix "" { policy = "read" }`))
	wantKind(t, c.SetGateway(t.Context(), "edge", ingress(8080)), structs.KindDenied)
}
