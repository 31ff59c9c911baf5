package mesh

import (
	"reflect"
	"strings"
	"testing"

	"berth/structs"
)

func resolver() Resolver {
	return Resolver{
		Ports: []structs.AllocatedPort{
			{Label: "connect-proxy-web", Value: 20001, To: 20001, HostIP: "10.0.0.1"},
			{Label: "http", Value: 20002, To: 8080, HostIP: "10.0.0.1"},
			{Label: "six", Value: 20003, HostIP: "fd00::1"},
		},
		Expand: func(s string) string { return strings.ReplaceAll(s, "${x}", "y") },
	}
}

func near() *structs.ConnectUpstream {
	return &structs.ConnectUpstream{
		DestinationName:  "near",
		DestinationType:  "prepared_query",
		LocalBindAddress: "127.0.0.9",
		LocalBindPort:    1,
	}
}

func webService() *structs.Service {
	return &structs.Service{
		Name:      "web",
		PortLabel: "http",
		Connect: &structs.Connect{SidecarService: &structs.SidecarService{
			Tags: []string{"tag-${x}"},
			Meta: map[string]string{"${x}": "m-${x}"},
			Proxy: &structs.ConnectProxy{
				Config: map[string]any{"a": "${x}", "b": []any{"${x}", 1}, "c": map[string]any{"d": "${x}"}},
				Upstreams: []*structs.ConnectUpstream{
					{DestinationName: "api-${x}", LocalBindPort: 9191},
					near(),
				},
			},
		}},
	}
}

func TestSidecar_ReplacesPlaceholdersAndLabels(t *testing.T) {
	got, err := resolver().Sidecar(webService())
	want := &Sidecar{
		Service:      "web",
		Port:         resolver().Ports[0],
		LocalAddress: "127.0.0.1",
		LocalPort:    8080,
		Upstreams: []*structs.ConnectUpstream{
			{DestinationName: "api-y", LocalBindPort: 9191},
			near(),
		},
		Config:   map[string]any{"a": "y", "b": []any{"y", 1}, "c": map[string]any{"d": "y"}},
		Tags:     []string{"tag-y"},
		Meta:     map[string]string{"y": "m-y"},
		TCPCheck: true,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestSidecar_KnowsWhereItsServiceListens(t *testing.T) {
	s := webService()
	side := s.Connect.SidecarService
	local := func(label string, port int) (string, int, error) {
		s.PortLabel = label
		side.Proxy = &structs.ConnectProxy{LocalServicePort: port, LocalServiceAddress: "127.0.0.${x}"}
		got, err := resolver().Sidecar(s)
		if err != nil {
			return "", 0, err
		}
		return got.LocalAddress, got.LocalPort, nil
	}
	for label, want := range map[string]int{"http": 8080, "9001": 9001, "six": 20003} {
		if host, port, err := local(label, 0); host != "127.0.0.y" || port != want || err != nil {
			t.Errorf("port %q: %s:%d, %v", label, host, port, err)
		}
	}
	if _, port, err := local("", 7); port != 7 || err != nil {
		t.Errorf("local_service_port: %d, %v", port, err)
	}
	for _, label := range []string{"", "other", "0", "70000"} {
		if _, _, err := local(label, 0); !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("port %q: %v", label, err)
		}
	}
	side.Port = "six"
	s.PortLabel = "http"
	got, err := resolver().Sidecar(s)
	if err != nil || got.Port.Value != 20003 || got.BindAddress() != "::" {
		t.Errorf("another label: %+v, %v", got, err)
	}
	side.Port = "none"
	if _, err := resolver().Sidecar(s); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a missing label: %v", err)
	}
}

func TestSidecar_ExposesPaths(t *testing.T) {
	s := webService()
	path := &structs.ConnectExposePath{
		Path:          "/${x}",
		Protocol:      "http",
		LocalPathPort: 8080,
		ListenerPort:  "http",
	}
	s.Connect.SidecarService.Proxy.Expose = &structs.ConnectExpose{Paths: []*structs.ConnectExposePath{path}}
	got, err := resolver().Sidecar(s)
	want := []ExposedPath{{Path: "/y", Protocol: "http", LocalPort: 8080, ListenerPort: 8080}}
	if err != nil || !reflect.DeepEqual(got.Expose, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	path.ListenerPort = "none"
	if _, err := resolver().Sidecar(s); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a missing label: %v", err)
	}
}

func TestProxy_OfATask(t *testing.T) {
	gateway := &structs.Service{Name: "in", Connect: &structs.Connect{Gateway: &structs.Gateway{}}}
	native := &structs.Service{Name: "native", Connect: &structs.Connect{Native: true}}
	g := &structs.TaskGroup{Services: []*structs.Service{nil, {Name: "plain"}, native, webService(), gateway}}
	proxy := func(kind, service string) (*Proxy, error) {
		return resolver().Proxy(g, &structs.Task{Name: "t", Kind: structs.NewTaskKind(kind, service)})
	}
	got, err := proxy(structs.KindConnectProxy, "web")
	want := &Proxy{
		Service: "web",
		Listen:  "0.0.0.0:20001",
		Local:   "127.0.0.1:8080",
		Upstreams: []ProxyUpstream{
			{Name: "api-y", Bind: "127.0.0.1:9191"},
			{Name: "near", Query: true, Bind: "127.0.0.9:1"},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a sidecar: %+v, %v", got, err)
	}
	got, err = proxy(structs.KindConnectIngress, "in")
	if err != nil || !reflect.DeepEqual(got, &Proxy{Service: "in", Gateway: true}) {
		t.Errorf("a gateway: %+v, %v", got, err)
	}
	for _, kind := range []structs.TaskKind{"", structs.NewTaskKind(structs.KindConnectNative, "native")} {
		got, err := resolver().Proxy(g, &structs.Task{Kind: kind})
		if got != nil || err != nil {
			t.Errorf("kind %q: %+v, %v", kind, got, err)
		}
	}
	for _, service := range []string{"plain", "native", "missing"} {
		if _, err := proxy(structs.KindConnectProxy, service); !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("of the service %s: %v", service, err)
		}
	}
}

func TestProxy_NamesWhatNeedsEnvoy(t *testing.T) {
	s := webService()
	s.Connect.SidecarService.Proxy.Upstreams[0].DestinationName = "near${x}" // of another name than near
	g := &structs.TaskGroup{Services: []*structs.Service{s}}
	task := &structs.Task{Kind: structs.NewTaskKind(structs.KindConnectProxy, "web")}
	got, err := resolver().Proxy(g, task)
	if err != nil || got.EnvoyOnly != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	s.Connect.SidecarService.Proxy.Upstreams[1].DestinationName = "neary"
	got, err = resolver().Proxy(g, task)
	if err != nil || got.EnvoyOnly != "upstream neary: a second port for it" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestUpstreams_AreThoseOfAllProxies(t *testing.T) {
	bare := &structs.Service{Connect: &structs.Connect{SidecarService: &structs.SidecarService{}}}
	g := &structs.TaskGroup{Services: []*structs.Service{nil, {}, bare, webService(), webService()}}
	if got := Upstreams(g); len(got) != 4 || got[2].DestinationName != "api-${x}" {
		t.Errorf("got %+v", got)
	}
}
