package consul

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/consul/mesh"
	"berth/structs"
	"berth/test/consultest"
)

// meshed is an instance with a sidecar.
func meshed() *Instance {
	return &Instance{
		ServiceInstance: structs.ServiceInstance{
			ID:          "_berth-alloc-group-web-http",
			ServiceName: "web",
			Tags:        []string{"ours"},
			Address:     "10.0.0.1",
			Port:        20000,
		},
		EnableTagOverride: true,
		Connect: &Connect{Sidecar: &mesh.Sidecar{
			Service:      "web",
			Port:         structs.AllocatedPort{Value: 20001, To: 21001, HostIP: "10.0.0.1"},
			LocalAddress: "127.0.0.1",
			LocalPort:    8080,
			Upstreams: []*structs.ConnectUpstream{{
				DestinationName: "api",
				LocalBindPort:   9191,
				Config:          map[string]any{"connect_timeout_ms": 100},
				MeshGateway:     &structs.ConnectMeshGateway{Mode: "local"},
			}},
			Expose:   []mesh.ExposedPath{{Path: "/health", Protocol: "http", LocalPort: 8080, ListenerPort: 8081}},
			Config:   map[string]any{"protocol": "http", "envoy_stats_tags": []any{"theirs"}},
			TCPCheck: true,
		}},
		Of: Origin{AllocID: "alloc", Group: "g"},
	}
}

func mustRegister(t *testing.T, i *Instance) *Service {
	t.Helper()
	s, _, err := i.Registration()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRegistration_OfASidecar(t *testing.T) {
	s := mustRegister(t, meshed())
	side := s.Connect.SidecarService
	id := "_berth-task-alloc-group-web-http"
	want := &api.AgentServiceConnectProxyConfig{
		DestinationServiceName: "web",
		DestinationServiceID:   id,
		LocalServiceAddress:    "127.0.0.1",
		LocalServicePort:       8080,
		Config: map[string]any{
			"protocol":         "http",
			"bind_address":     "0.0.0.0",
			"bind_port":        21001,
			"envoy_stats_tags": []any{"theirs", "nomad.group=g", "nomad.alloc_id=alloc"},
		},
		Upstreams: []api.Upstream{{
			DestinationType: api.UpstreamDestTypeService,
			DestinationName: "api",
			LocalBindPort:   9191,
			Config:          map[string]any{"connect_timeout_ms": 100},
			MeshGateway:     api.MeshGatewayConfig{Mode: api.MeshGatewayModeLocal},
		}},
		Expose: api.ExposeConfig{Paths: []api.ExposePath{
			{Path: "/health", Protocol: "http", LocalPathPort: 8080, ListenerPort: 8081},
		}},
	}
	if !reflect.DeepEqual(side.Proxy, want) {
		t.Errorf("the proxy is %+v\nwant %+v", side.Proxy, want)
	}
	if s.ID != id || side.Address != "10.0.0.1" || side.Port != 20001 {
		t.Errorf("the service is %+v beside %s", side, s.ID)
	}
	if c := side.Checks; len(c) != 2 || c[0].AliasService != id || c[1].TCP != "10.0.0.1:20001" {
		t.Errorf("the checks are %+v", c)
	}
	without := meshed()
	without.Connect.Sidecar.TCPCheck = false
	without.Connect.Sidecar.Config = map[string]any{"bind_port": 1}
	s = mustRegister(t, without)
	side = s.Connect.SidecarService
	if len(side.Checks) != 1 || side.Proxy.Config["bind_port"] != 1 {
		t.Errorf("without the check, with a port of its own: %+v", side)
	}
}

func TestRegistration_OfANativeService(t *testing.T) {
	i := meshed()
	i.Connect = &Connect{Native: true}
	if s := mustRegister(t, i); !reflect.DeepEqual(s.Connect, &api.AgentServiceConnect{Native: true}) {
		t.Errorf("got %+v", s.Connect)
	}
}

func TestRegistration_OfGateways(t *testing.T) {
	timeout := 3 * time.Second
	i := meshed()
	gateway := &structs.Gateway{
		Ingress: &structs.GatewayIngress{},
		Proxy: &structs.GatewayProxy{
			ConnectTimeout:                  &timeout,
			EnvoyGatewayBindTaggedAddresses: true,
			EnvoyGatewayNoDefaultBind:       true,
			EnvoyDNSDiscoveryType:           "STRICT_DNS",
			EnvoyGatewayBindAddresses: map[string]*structs.GatewayBindAddress{
				"a": {Address: "0.0.0.0", Port: 80},
			},
			Config: map[string]any{"x": 1},
		},
	}
	i.Connect = &Connect{Gateway: &mesh.Gateway{Gateway: gateway}}
	s := mustRegister(t, i)
	want := map[string]any{
		"connect_timeout_ms":                  int64(3000),
		"envoy_gateway_bind_tagged_addresses": true,
		"envoy_gateway_no_default_bind":       true,
		"envoy_dns_discovery_type":            "STRICT_DNS",
		"envoy_gateway_bind_addresses": map[string]any{
			"a": map[string]any{"Address": "0.0.0.0", "Port": 80},
		},
		"x":                1,
		"envoy_stats_tags": []any{"nomad.group=g", "nomad.alloc_id=alloc"},
	}
	ingress := s.Kind == api.ServiceKindIngressGateway
	if !ingress || !reflect.DeepEqual(s.Proxy.Config, want) || s.Connect != nil {
		t.Errorf("got %s, %+v", s.Kind, s.Proxy)
	}
	gateway.Proxy = nil
	gateway.Ingress = nil
	gateway.Terminating = &structs.GatewayTerminating{}
	if s := mustRegister(t, i); s.Kind != api.ServiceKindTerminatingGateway || len(s.Proxy.Config) != 1 {
		t.Errorf("got %s, %+v", s.Kind, s.Proxy)
	}
	i.Connect.Gateway = &mesh.Gateway{
		Gateway: &structs.Gateway{Mesh: &structs.GatewayMesh{}},
		TaggedAddresses: map[string]structs.AllocatedPort{
			"lan": {HostIP: "10.0.0.1", Value: 1},
			"wan": {Value: 2},
		},
	}
	i.TaggedAddresses = map[string]string{"wan": "10.0.0.2:3"}
	addresses := map[string]api.ServiceAddress{
		"lan": {Address: "10.0.0.1", Port: 1},
		"wan": {Address: "10.0.0.2", Port: 3}, // the job's
	}
	mesh := mustRegister(t, i)
	if mesh.Kind != api.ServiceKindMeshGateway || !maps.Equal(mesh.TaggedAddresses, addresses) {
		t.Errorf("got %s, %v", mesh.Kind, mesh.TaggedAddresses)
	}
}

func TestSyncer_RestoresTheChecksOfASidecar(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAgent, s *Syncer) {
		web := mustRegister(t, meshed())
		s.Put("alloc", []*Service{web})
		pass(10 * syncInterval)
		if n := f.count("register"); n != 1 || len(f.checks) != 2 {
			t.Fatalf("%d registrations without a change, %d checks", n, len(f.checks))
		}
		listening := web.Connect.SidecarService.Checks[1].CheckID
		f.change(func() { delete(f.checks, listening) })
		pass(syncInterval)
		if f.checks[listening] == nil {
			t.Error("a lost check of the sidecar is not there again")
		}
		without := meshed()
		without.Connect.Sidecar.TCPCheck = false
		web = mustRegister(t, without)
		s.Put("alloc", []*Service{web})
		pass(time.Second)
		if f.checks[listening] != nil || len(f.checks) != 1 {
			t.Errorf("the former checks are left: %v", f.checks)
		}
	})
}

// Consul itself has a sidecar once, keeps the tags of others there as the parent says, and gets it again.
func TestConsul_HasTheSidecarOfAService(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	l, count := linkTo(t, a, nil)
	web := mustRegister(t, meshed())
	ingress := meshed()
	ingress.ID = "_berth-alloc-group-in-"
	ingress.ServiceName = "in"
	ingress.Connect = &Connect{Gateway: &mesh.Gateway{
		Gateway: &structs.Gateway{Ingress: &structs.GatewayIngress{}},
	}}
	gateway := mustRegister(t, ingress)
	l.Put("alloc", []*Service{web, gateway})
	for range 5 {
		mustSync(t, l)
	}
	sidecar := web.ID + sidecarSuffix
	now := servicesOf(t, a)
	if n := count.registrations.Load(); n != 2 || len(now) != 3 {
		t.Fatalf("%d registrations without a change, of %d services", n, len(now))
	}
	side := now[sidecar]
	if side.Kind != api.ServiceKindConnectProxy || side.Port != 20001 || !side.EnableTagOverride ||
		!slices.Equal(side.Tags, []string{"ours"}) || side.Proxy.DestinationServiceID != web.ID ||
		side.Proxy.LocalServicePort != 8080 || len(side.Proxy.Upstreams) != 1 {
		t.Errorf("the sidecar is %+v, %+v", side, side.Proxy)
	}
	if now[gateway.ID].Kind != api.ServiceKindIngressGateway {
		t.Errorf("the gateway is %+v", now[gateway.ID])
	}
	checks, err := a.API.Agent().ChecksWithFilter(`ServiceID == "` + sidecar + `"`)
	if err != nil || len(checks) != 2 {
		t.Errorf("the checks of the sidecar are %v, %v", checks, err)
	}

	editAgentTags(t, a, sidecar, "theirs")
	for range 10 {
		mustSync(t, l)
	}
	if tags := servicesOf(t, a)[sidecar].Tags; !slices.Equal(tags, []string{"theirs"}) {
		t.Errorf("after ten syncs the tags of the sidecar are %q", tags)
	}
	if err := a.API.Agent().ServiceDeregister(sidecar); err != nil {
		t.Fatal(err)
	}
	mustSync(t, l)
	if servicesOf(t, a)[sidecar] == nil {
		t.Error("a lost sidecar is not there again")
	}
	plain := meshed()
	plain.Connect = nil
	web = mustRegister(t, plain)
	l.Put("alloc", []*Service{web})
	mustSync(t, l)
	if now := servicesOf(t, a); len(now) != 1 || now[web.ID] == nil {
		t.Errorf("without a sidecar and a gateway there are %v", now)
	}
	l.Put("alloc", nil)
	mustSync(t, l)
	if checks, err := a.API.Agent().Checks(); err != nil || len(checks)+len(servicesOf(t, a)) != 0 {
		t.Errorf("at the end there are %v, %v, %v", servicesOf(t, a), checks, err)
	}
}

// dialer returns a link with an address, and with a port for gRPC from the fingerprint.
func dialer(t *testing.T, c Config, port int) *Link {
	t.Helper()
	l, _ := linkTo(t, &consultest.Agent{}, func(d *Config) {
		*d = DefaultConfig()
		d.Address = c.Address
		d.GRPCAddress = c.GRPCAddress
		d.VerifySSL = c.VerifySSL
	})
	if port != 0 {
		l.fingerprint.set(map[string]string{"consul.grpc": strconv.Itoa(port)})
	}
	return l
}

// listen accepts connections and ends them.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func checkDial(t *testing.T, what string, dial func(context.Context) (net.Conn, error), want net.Listener) {
	t.Helper()
	conn, err := dial(t.Context())
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer conn.Close()
	if got := conn.RemoteAddr().String(); got != want.Addr().String() {
		t.Errorf("%s: connected to %s, want %s", what, got, want.Addr())
	}
}

func TestDial_FindsTheAddressesOfConsul(t *testing.T) {
	tcp := listen(t, "tcp", "127.0.0.1:0")
	unix := listen(t, "unix", filepath.Join(t.TempDir(), "s"))
	port := tcp.Addr().(*net.TCPAddr).Port
	socket := "unix://" + unix.Addr().String()
	l := dialer(t, Config{Address: tcp.Addr().String()}, port)
	checkDial(t, "HTTP", l.DialHTTP, tcp)
	checkDial(t, "gRPC from the fingerprint", l.DialGRPC, tcp)
	l = dialer(t, Config{Address: socket, GRPCAddress: socket}, 0)
	checkDial(t, "HTTP over a socket", l.DialHTTP, unix)
	checkDial(t, "gRPC over a socket", l.DialGRPC, unix)
	l = dialer(t, Config{Address: socket}, port)
	checkDial(t, "gRPC beside a socket", l.DialGRPC, tcp)
	for _, port := range []int{-1, 70000} {
		l = dialer(t, Config{Address: socket}, port)
		if _, err := l.DialGRPC(t.Context()); !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("with the port %d: %v", port, err)
		}
	}
}

// Tasks speak plain HTTP to the agent's socket. The agent adds TLS if Consul takes https alone.
func TestDialHTTP_AddsTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("over TLS"))
	}))
	defer server.Close()
	l := dialer(t, Config{Address: server.URL}, 0)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return l.DialHTTP(ctx) },
	}}
	resp, err := client.Get("http://consul/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the answer is %s", resp.Status)
	}
}
