package mesh

import (
	"reflect"
	"testing"

	"berth/structs"
)

func gatewayService(g *structs.Gateway) *structs.Service {
	return &structs.Service{Name: "edge", PortLabel: "http", Connect: &structs.Connect{Gateway: g}}
}

func TestGateway_FillsInThePortsOfTheAllocation(t *testing.T) {
	r := resolver()
	r.Ports = append(r.Ports, structs.AllocatedPort{
		Label: "connect-mesh-edge-lan", Value: 20005, To: 20005, HostIP: "10.0.0.1",
	})
	given := &structs.Gateway{
		Mesh: &structs.GatewayMesh{},
		Proxy: &structs.GatewayProxy{
			Config: map[string]any{"a": "${x}"},
			EnvoyGatewayBindAddresses: map[string]*structs.GatewayBindAddress{
				"wan":   {Address: "0.0.0.0", Port: -1},
				"lan":   {Address: "0.0.0.0", Port: -1},
				"other": {Address: "10.0.0.9", Port: 80},
			},
		},
	}
	got, err := r.Gateway(gatewayService(given))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*structs.GatewayBindAddress{
		"wan":   {Address: "0.0.0.0", Port: 8080},
		"lan":   {Address: "0.0.0.0", Port: 20005},
		"other": {Address: "10.0.0.9", Port: 80},
	}
	if !reflect.DeepEqual(got.Proxy.EnvoyGatewayBindAddresses, want) || got.Proxy.Config["a"] != "y" {
		t.Errorf("got %+v", got.Proxy)
	}
	tagged := map[string]structs.AllocatedPort{"wan": r.Ports[1], "lan": r.Ports[3]}
	if !reflect.DeepEqual(got.TaggedAddresses, tagged) {
		t.Errorf("got %v", got.TaggedAddresses)
	}
	if given.Proxy.EnvoyGatewayBindAddresses["wan"].Port != -1 || given.Proxy.Config["a"] != "${x}" {
		t.Error("the job has changed")
	}
	given.Mesh = nil
	given.Terminating = &structs.GatewayTerminating{}
	s := gatewayService(given)
	s.PortLabel = "missing"
	if _, err := r.Gateway(s); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a missing label: %v", err)
	}
	given.Proxy = nil
	got, err = r.Gateway(s)
	if err != nil || got.TaggedAddresses != nil || got.Proxy != nil {
		t.Errorf("without settings: %+v, %v", got, err)
	}
}
