package mesh

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/structs"
	"berth/test/jobtext"
)

func TestResolver_ReplacesPlaceholders(t *testing.T) {
	r := resolver()
	r.Expand = func(text string) string { return strings.ReplaceAll(text, jobtext.Placeholder, jobtext.Value) }
	proxy := jobtext.Fill(&structs.ConnectProxy{})
	proxy.Config = map[string]any{"a": jobtext.Placeholder}
	upstream := jobtext.Fill(&structs.ConnectUpstream{})
	upstream.Config = proxy.Config
	path := jobtext.Fill(&structs.ConnectExposePath{})
	path.ListenerPort = "http"
	proxy.Upstreams = []*structs.ConnectUpstream{upstream}
	proxy.Expose = &structs.ConnectExpose{Paths: []*structs.ConnectExposePath{path}}
	side := jobtext.Fill(&structs.SidecarService{})
	side.Port = "http"
	side.Proxy = proxy
	got, err := r.Sidecar(&structs.Service{
		Name:      "web",
		PortLabel: "http",
		Connect:   &structs.Connect{SidecarService: side},
	})
	if err != nil {
		t.Fatal(err)
	}
	isReplaced := func(config map[string]any) bool { return config["a"] == jobtext.Value }
	gateway := resolvedGateway(t, r)
	replaced := map[string]bool{
		"SidecarService.Tags":              slices.Equal(got.Tags, []string{jobtext.Value}),
		"SidecarService.Meta":              got.Meta[jobtext.Value] == jobtext.Value,
		"ConnectProxy.LocalServiceAddress": got.LocalAddress == jobtext.Value,
		"ConnectProxy.Config":              isReplaced(got.Config),
		"ConnectExposePath.Path":           got.Expose[0].Path == jobtext.Value,
		"GatewayProxy.Config":              isReplaced(gateway.Config),
		"GatewayBindAddress.Address":       gateway.EnvoyGatewayBindAddresses["a"].Address == "10.0.0.1",
	}
	maps.Copy(replaced, jobtext.Replaced(got.Upstreams[0]))
	replaced["ConnectUpstream.Config"] = isReplaced(got.Upstreams[0].Config)
	jobtext.Check(t, "consul/mesh", replaced)
}

// resolvedGateway returns the proxy of a gateway whose address has a placeholder for an IP address.
func resolvedGateway(t *testing.T, r Resolver) *structs.GatewayProxy {
	t.Helper()
	expand := r.Expand
	r.Expand = func(text string) string { return strings.ReplaceAll(expand(text), "${ip}", "10.0.0.1") }
	g, err := r.Gateway(&structs.Service{Name: "edge", PortLabel: "http", Connect: &structs.Connect{
		Gateway: &structs.Gateway{
			Ingress: &structs.GatewayIngress{},
			Proxy: &structs.GatewayProxy{
				Config: map[string]any{"a": jobtext.Placeholder},
				EnvoyGatewayBindAddresses: map[string]*structs.GatewayBindAddress{
					"a": {Address: "${ip}", Port: 80},
				},
			},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return g.Proxy
}

func TestGateway_RejectsAnAddressThatIsNone(t *testing.T) {
	_, err := resolver().Gateway(&structs.Service{Name: "edge", Connect: &structs.Connect{Gateway: &structs.Gateway{
		Ingress: &structs.GatewayIngress{},
		Proxy: &structs.GatewayProxy{EnvoyGatewayBindAddresses: map[string]*structs.GatewayBindAddress{
			"a": {Address: "${x}", Port: 80},
		}},
	}}})
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), `"y" is not an IP address`) {
		t.Errorf("got %v", err)
	}
}
