package consul

import (
	"testing"

	"github.com/hashicorp/consul/api"

	"berth/consul/mesh"
	"berth/structs"
	"berth/test/consultest"
)

// meshedFully is an instance with everything that a job may set at a sidecar.
func meshedFully() *Instance {
	i := meshed()
	s := i.Connect.Sidecar
	s.Upstreams = append(s.Upstreams,
		&structs.ConnectUpstream{
			DestinationName:      "far",
			DestinationNamespace: "default",
			Datacenter:           "dc2",
			LocalBindAddress:     "127.0.0.2",
			LocalBindPort:        9192,
		},
		&structs.ConnectUpstream{DestinationName: "peered", DestinationPeer: "p", LocalBindPort: 9193},
		&structs.ConnectUpstream{DestinationName: "query", DestinationType: "prepared_query", LocalBindPort: 9194},
		&structs.ConnectUpstream{DestinationName: "socket", LocalBindSocketPath: "/s", LocalBindSocketMode: "0600"},
		&structs.ConnectUpstream{DestinationName: "open", LocalBindSocketPath: "/t"},
	)
	s.Config = map[string]any{
		"protocol":       "http",
		"number":         7,
		"share":          0.5,
		"flag":           false,
		"empty":          map[string]any{},
		"none":           nil,
		"deep":           map[string]any{"list": []any{map[string]any{"a": 1}, "b"}},
		"envoy_dogstats": "udp://127.0.0.1:8125",
	}
	return i
}

// meshServices are a service with a full sidecar, one with the least sidecar, a native one and a gateway.
func meshServices(t *testing.T) []*Service {
	t.Helper()
	instance := func(name string, c *Connect) *Service {
		i := meshed()
		i.ID = "_berth-alloc-group-" + name + "-"
		i.ServiceName = name
		i.Connect = c
		return mustRegister(t, i)
	}
	gateway := &structs.Gateway{
		Ingress: &structs.GatewayIngress{},
		Proxy: &structs.GatewayProxy{
			EnvoyGatewayNoDefaultBind: true,
			EnvoyGatewayBindAddresses: map[string]*structs.GatewayBindAddress{"a": {Address: "0.0.0.0", Port: 80}},
		},
	}
	return []*Service{
		mustRegister(t, meshedFully()),
		instance("least", &Connect{Sidecar: &mesh.Sidecar{Service: "least"}}),
		instance("native", &Connect{Native: true}),
		instance("in", &Connect{Gateway: &mesh.Gateway{Gateway: gateway}}),
	}
}

// mustWrite writes central configuration, which Consul adds to the proxies that it has.
func mustWrite(t *testing.T, a *consultest.Agent, entries ...api.ConfigEntry) {
	t.Helper()
	for _, e := range entries {
		if _, _, err := a.API.ConfigEntries().Set(e, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConsul_RegistersProxiesOnce(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	l, count := linkTo(t, a, nil)
	services := meshServices(t)
	l.Put("alloc", services)
	check := func(what string) {
		t.Helper()
		for range 5 {
			mustSync(t, l)
		}
		if n := int(count.registrations.Load()); n != len(services) {
			t.Errorf("%s: %d registrations of %d services", what, n, len(services))
		}
	}
	check("without a change")
	sidecar := services[0].ID + sidecarSuffix
	native := services[2].ID
	await(t, "virtual addresses", func() bool {
		now := servicesOf(t, a)
		_, ofSidecar := now[sidecar].TaggedAddresses["consul-virtual"]
		_, ofNative := now[native].TaggedAddresses["consul-virtual"]
		return ofSidecar && ofNative
	})
	check("with virtual addresses")
	mustWrite(t, a, centralConfig()...)
	await(t, "central configuration", func() bool {
		now := servicesOf(t, a)
		u := now[sidecar].Proxy.Upstreams
		least := now[services[1].ID+sidecarSuffix].Proxy
		gateway := now[services[3].ID].Proxy
		return now[sidecar].Proxy.Config["theirs"] != nil && u[1].Config["connect_timeout_ms"] != nil &&
			u[1].MeshGateway.Mode != "" && len(least.Expose.Paths) == 1 && gateway.Config["theirs"] != nil
	})
	check("with central configuration")
}

// centralConfig has a value for all that Consul adds to proxies, also for what they have.
func centralConfig() []api.ConfigEntry {
	remote := api.MeshGatewayConfig{Mode: api.MeshGatewayModeRemote}
	paths := []api.ExposePath{{Path: "/", LocalPathPort: 1, ListenerPort: 2}}
	return []api.ConfigEntry{
		&api.ProxyConfigEntry{
			Kind:        api.ProxyDefaults,
			Name:        api.ProxyConfigGlobal,
			Config:      map[string]any{"number": 8, "theirs": 1, "deep": map[string]any{"more": true}},
			MeshGateway: remote,
		},
		&api.ServiceConfigEntry{
			Kind:   api.ServiceDefaults,
			Name:   "least",
			Expose: api.ExposeConfig{Paths: paths},
		},
		&api.ServiceConfigEntry{
			Kind:   api.ServiceDefaults,
			Name:   "web",
			Expose: api.ExposeConfig{Paths: paths},
			UpstreamConfig: &api.UpstreamConfiguration{Defaults: &api.UpstreamConfig{
				ConnectTimeoutMs: 300,
				MeshGateway:      remote,
			}},
		},
	}
}

// edit registers a service of Consul again with another definition, as another program does.
func edit(t *testing.T, a *consultest.Agent, id string, change func(*Service)) {
	t.Helper()
	now := servicesOf(t, a)[id]
	s := &Service{
		Kind:              now.Kind,
		ID:                now.ID,
		Name:              now.Service,
		Tags:              now.Tags,
		Meta:              now.Meta,
		Port:              now.Port,
		Address:           now.Address,
		TaggedAddresses:   now.TaggedAddresses,
		Weights:           &now.Weights,
		EnableTagOverride: now.EnableTagOverride,
		Proxy:             now.Proxy,
		Connect:           now.Connect,
	}
	change(s)
	if err := a.API.Agent().ServiceRegister(s); err != nil {
		t.Fatal(err)
	}
}

func TestConsul_RestoresProxiesOnce(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	l, count := linkTo(t, a, nil)
	services := meshServices(t)
	l.Put("alloc", services)
	mustSync(t, l)
	sidecar := services[0].ID + sidecarSuffix
	for name, c := range map[string]struct {
		id     string
		change func(*Service)
	}{
		"target":           {sidecar, func(s *Service) { s.Proxy.DestinationServiceName = "api" }},
		"target ID":        {sidecar, func(s *Service) { s.Proxy.DestinationServiceID = "x" }},
		"local address":    {sidecar, func(s *Service) { s.Proxy.LocalServiceAddress = "127.0.0.9" }},
		"local port":       {sidecar, func(s *Service) { s.Proxy.LocalServicePort++ }},
		"config":           {sidecar, func(s *Service) { s.Proxy.Config["number"] = 8 }},
		"deep config":      {sidecar, func(s *Service) { s.Proxy.Config["deep"] = map[string]any{"list": 1} }},
		"no map":           {sidecar, func(s *Service) { s.Proxy.Config["empty"] = 1 }},
		"less config":      {sidecar, func(s *Service) { delete(s.Proxy.Config, "flag") }},
		"paths":            {sidecar, func(s *Service) { s.Proxy.Expose.Paths[0].Path = "/all" }},
		"port of a path":   {sidecar, func(s *Service) { s.Proxy.Expose.Paths[0].LocalPathPort++ }},
		"listener":         {sidecar, func(s *Service) { s.Proxy.Expose.Paths[0].ListenerPort++ }},
		"protocol":         {sidecar, func(s *Service) { s.Proxy.Expose.Paths[0].Protocol = "http2" }},
		"no path":          {sidecar, func(s *Service) { s.Proxy.Expose.Paths = nil }},
		"upstream":         {sidecar, func(s *Service) { s.Proxy.Upstreams[0].DestinationName = "other" }},
		"type":             {sidecar, func(s *Service) { s.Proxy.Upstreams[0].DestinationType = "prepared_query" }},
		"peer":             {sidecar, func(s *Service) { s.Proxy.Upstreams[0].DestinationPeer = "q" }},
		"datacenter":       {sidecar, func(s *Service) { s.Proxy.Upstreams[1].Datacenter = "dc3" }},
		"bind address":     {sidecar, func(s *Service) { s.Proxy.Upstreams[0].LocalBindAddress = "127.0.0.9" }},
		"bind port":        {sidecar, func(s *Service) { s.Proxy.Upstreams[0].LocalBindPort++ }},
		"socket":           {sidecar, func(s *Service) { s.Proxy.Upstreams[4].LocalBindSocketPath = "/u" }},
		"socket's mode":    {sidecar, func(s *Service) { s.Proxy.Upstreams[4].LocalBindSocketMode = "0666" }},
		"mode":             {sidecar, func(s *Service) { s.Proxy.Upstreams[0].MeshGateway.Mode = "none" }},
		"upstream config":  {sidecar, func(s *Service) { s.Proxy.Upstreams[0].Config["connect_timeout_ms"] = 1 }},
		"less upstreams":   {sidecar, func(s *Service) { s.Proxy.Upstreams = s.Proxy.Upstreams[:2] }},
		"first upstream":   {services[1].ID + sidecarSuffix, addUpstream},
		"native":           {services[2].ID, func(s *Service) { s.Connect = nil }},
		"gateway's config": {services[3].ID, func(s *Service) { s.Proxy.Config["envoy_stats_tags"] = nil }},
	} {
		before := count.registrations.Load()
		edit(t, a, c.id, c.change)
		for range 5 {
			mustSync(t, l)
		}
		if n := count.registrations.Load() - before; n != 1 {
			t.Errorf("%s: %d registrations after the change of another program", name, n)
		}
	}
}

func addUpstream(s *Service) {
	s.Proxy.Upstreams = []api.Upstream{{DestinationName: "api", LocalBindPort: 1}}
}

// Consul Enterprise and transparent proxies answer with further settings. No Consul of the tests has them.
func TestSameProxy_OfOtherConsuls(t *testing.T) {
	web := api.Upstream{DestinationName: "web", LocalBindPort: 1}
	central := api.Upstream{DestinationName: "more", CentrallyConfigured: true}
	elsewhere := web
	elsewhere.DestinationNamespace = "other"
	open := web
	open.DestinationNamespace = "default"
	open.DestinationType = api.UpstreamDestTypeService
	open.LocalBindAddress = "127.0.0.1"
	for name, c := range map[string]struct {
		now  []api.Upstream
		same bool
	}{
		"defaults":              {[]api.Upstream{open}, true},
		"centrally configured":  {[]api.Upstream{web, central}, true},
		"of another namespace":  {[]api.Upstream{elsewhere}, false},
		"none of a known proxy": {nil, false},
	} {
		want := &api.AgentServiceConnectProxyConfig{Upstreams: []api.Upstream{web}}
		if got := sameProxy(want, &api.AgentServiceConnectProxyConfig{Upstreams: c.now}); got != c.same {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if sameProxy(&api.AgentServiceConnectProxyConfig{Config: map[string]any{"a": 1}}, nil) {
		t.Error("a proxy without settings is the same")
	}
}
