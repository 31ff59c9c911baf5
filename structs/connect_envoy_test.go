package structs

import (
	"strings"
	"testing"
)

func TestEnvoyOnly_NamesWhatTheBuiltInProxyLacks(t *testing.T) {
	for want, p := range map[string]*ConnectProxy{
		"":                       nil,
		"expose":                 {Expose: &ConnectExpose{Paths: []*ConnectExposePath{{}}}},
		"local_bind_socket_path": {Upstreams: []*ConnectUpstream{{LocalBindSocketPath: "/alloc/s"}}},
		"destination_peer":       {Upstreams: []*ConnectUpstream{{DestinationPeer: "p"}}},
		"datacenter":             {Upstreams: []*ConnectUpstream{{Datacenter: "dc2"}}},
		"of IPv6":                {Upstreams: []*ConnectUpstream{{LocalBindAddress: "::1"}}},
		"a dot or a colon":       {Upstreams: []*ConnectUpstream{{DestinationName: "a.query"}}},
		"a second port for it":   {Upstreams: []*ConnectUpstream{{DestinationName: "a"}, {DestinationName: "a"}}},
		"mesh_gateway":           {Upstreams: []*ConnectUpstream{{MeshGateway: &ConnectMeshGateway{Mode: "local"}}}},
	} {
		got := p.EnvoyOnly()
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: got %q", want, got)
		}
	}
	plain := &ConnectProxy{
		Expose: &ConnectExpose{},
		Upstreams: []*ConnectUpstream{
			nil,
			{DestinationName: "a", Config: map[string]any{"protocol": "http"}},
			{DestinationName: "b", DestinationType: "prepared_query", LocalBindAddress: "127.0.0.2"},
			{DestinationName: "${NOMAD_META_a.b}", MeshGateway: &ConnectMeshGateway{}},
		},
	}
	if got := plain.EnvoyOnly(); got != "" {
		t.Errorf("got %q", got)
	}
}
