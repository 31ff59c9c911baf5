package consul

import (
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/consul/mesh"
	"berth/structs"
)

// This file has the part of a service in Consul's service mesh: its sidecar, or its gateway. Package mesh has
// resolved the ports and the placeholders before.

// SidecarInterval is the pace of Consul's check that a sidecar listens, as in the dialect.
const SidecarInterval = 10 * time.Second

// SidecarCheck is the name of the check that a sidecar listens, as in the dialect.
const SidecarCheck = "Connect Sidecar Listening"

// SidecarCheckID returns the ID of that check of a service, "" if it has none.
func SidecarCheckID(s *Service) string {
	if sidecar := sidecarOf(s); sidecar != nil {
		for _, check := range sidecar.Checks {
			if check.Name == SidecarCheck {
				return check.CheckID
			}
		}
	}
	return ""
}

// Connect is the part of an instance in the service mesh, with its placeholders replaced. One of Native,
// Sidecar and Gateway is set.
type Connect struct {
	Native  bool
	Sidecar *mesh.Sidecar
	Gateway *mesh.Gateway
}

// addConnect adds the part in the service mesh to the registration of an instance.
func (c *Connect) addConnect(s *Service, of Origin) {
	switch {
	case c == nil:
	// The service talks the protocol of the mesh itself.
	case c.Native:
		s.Connect = &api.AgentServiceConnect{Native: true}
	case c.Sidecar != nil:
		s.Connect = &api.AgentServiceConnect{SidecarService: sidecarRegistration(c.Sidecar, s.ID, of)}
	case c.Gateway != nil:
		s.Kind = gatewayKind(c.Gateway.Gateway)
		s.Proxy = gatewayProxy(c.Gateway.Proxy)
		s.Proxy.Config = withStatsTags(s.Proxy.Config, of)
		for name, p := range c.Gateway.TaggedAddresses {
			tag(s, name, api.ServiceAddress{Address: p.HostIP, Port: p.Value})
		}
	}
}

// tag gives a service another address, if the job has not.
func tag(s *Service, name string, address api.ServiceAddress) {
	if _, given := s.TaggedAddresses[name]; given {
		return
	}
	if s.TaggedAddresses == nil {
		s.TaggedAddresses = map[string]api.ServiceAddress{}
	}
	s.TaggedAddresses[name] = address
}

// Origin names the allocation of an instance in the statistics of its proxy.
type Origin struct {
	AllocID, Group string
}

// sidecarRegistration returns the service of a proxy beside the service with an ID. The proxy of an unhealthy
// service counts as unhealthy, too, because other proxies choose among proxies.
func sidecarRegistration(s *mesh.Sidecar, serviceID string, of Origin) *Service {
	side := &Service{
		Tags:    s.Tags,
		Meta:    s.Meta,
		Address: s.Port.HostIP,
		Port:    s.Port.Value,
		Proxy: &api.AgentServiceConnectProxyConfig{
			DestinationServiceName: s.Service,
			DestinationServiceID:   serviceID,
			LocalServiceAddress:    s.LocalAddress,
			LocalServicePort:       s.LocalPort,
			Config:                 withStatsTags(sidecarConfig(s), of),
		},
	}

	for _, u := range s.Upstreams {
		side.Proxy.Upstreams = append(side.Proxy.Upstreams, upstream(u))
	}

	for _, p := range s.Expose {
		side.Proxy.Expose.Paths = append(side.Proxy.Expose.Paths, api.ExposePath{
			Path:          p.Path,
			Protocol:      p.Protocol,
			LocalPathPort: p.LocalPort,
			ListenerPort:  p.ListenerPort,
		})
	}

	side.Checks = api.AgentServiceChecks{{
		// The name is the dialect's, which others may look for.
		Name:         "Connect Sidecar Aliasing " + serviceID,
		AliasService: serviceID,
	}}
	if s.TCPCheck {
		side.Checks = append(side.Checks, &api.AgentServiceCheck{
			Name:     SidecarCheck,
			TCP:      s.Port.HostAddr(),
			Interval: SidecarInterval.String(),
			Status:   api.HealthCritical,
		})
	}

	for n, check := range side.Checks {
		// The IDs follow from the definitions, as the service's do: see checkID.
		check.CheckID = checkID(serviceID+sidecarSuffix, n, check)
	}

	return side
}

// sidecarConfig adds the place at which Envoy listens in the network of the allocation.
func sidecarConfig(s *mesh.Sidecar) map[string]any {
	config := map[string]any{
		"bind_address": s.BindAddress(),
		"bind_port":    s.Port.Inside(),
	}

	// The settings of the job win.
	maps.Copy(config, s.Config)
	return config
}

// withStatsTags adds what tells the statistics of the proxies of one service apart, as in the dialect.
func withStatsTags(config map[string]any, of Origin) map[string]any {
	const name = "envoy_stats_tags"
	given, _ := config[name].([]any)

	// Others read the config of the job, so the longer list goes into a copy.
	tags := slices.Concat(given, []any{"nomad.group=" + of.Group, "nomad.alloc_id=" + of.AllocID})
	out := maps.Clone(config)
	if out == nil {
		out = map[string]any{}
	}
	out[name] = tags
	return out
}

// upstream returns an upstream as Consul is to have it. What a job leaves empty is Consul's to fill.
func upstream(u *structs.ConnectUpstream) api.Upstream {
	out := api.Upstream{
		DestinationType:      api.UpstreamDestType(u.DestinationType),
		DestinationNamespace: u.DestinationNamespace,
		DestinationPeer:      u.DestinationPeer,
		DestinationName:      u.DestinationName,
		Datacenter:           u.Datacenter,
		LocalBindAddress:     u.LocalBindAddress,
		LocalBindPort:        u.LocalBindPort,
		LocalBindSocketPath:  u.LocalBindSocketPath,
		LocalBindSocketMode:  u.LocalBindSocketMode,
		Config:               u.Config,
	}

	if u.DestinationType == "" {
		out.DestinationType = api.UpstreamDestTypeService
	}

	if u.MeshGateway != nil {
		out.MeshGateway.Mode = api.MeshGatewayMode(u.MeshGateway.Mode)
	}

	return out
}

// gatewayKind returns the kind of the service of a gateway.
func gatewayKind(g *structs.Gateway) api.ServiceKind {
	switch {
	case g.Ingress != nil:
		return api.ServiceKindIngressGateway
	case g.Terminating != nil:
		return api.ServiceKindTerminatingGateway
	}
	return api.ServiceKindMeshGateway
}

// gatewayProxy returns the settings of the proxy of a gateway. Those of the job's config win.
func gatewayProxy(p *structs.GatewayProxy) *api.AgentServiceConnectProxyConfig {
	config := map[string]any{}

	// An entry that is not given is left out, because Consul would take an empty one for a value.
	set := func(name string, value any, given bool) {
		if given {
			config[name] = value
		}
	}

	if p != nil {
		if p.ConnectTimeout != nil {
			set("connect_timeout_ms", p.ConnectTimeout.Milliseconds(), true)
		}

		set("envoy_gateway_bind_tagged_addresses", true, p.EnvoyGatewayBindTaggedAddresses)
		set("envoy_gateway_no_default_bind", true, p.EnvoyGatewayNoDefaultBind)
		set("envoy_dns_discovery_type", p.EnvoyDNSDiscoveryType, p.EnvoyDNSDiscoveryType != "")
		addresses := map[string]any{}
		for name, a := range p.EnvoyGatewayBindAddresses {
			if a != nil {
				addresses[name] = map[string]any{"Address": a.Address, "Port": a.Port}
			}
		}

		set("envoy_gateway_bind_addresses", addresses, len(addresses) > 0)
		maps.Copy(config, p.Config)
	}

	return &api.AgentServiceConnectProxyConfig{Config: config}
}
