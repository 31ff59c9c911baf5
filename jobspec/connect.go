package jobspec

import (
	"time"

	"github.com/hashicorp/hcl/v2"

	"berth/structs"
)

// The blocks of Consul Connect. As in job.go, a block converts to its counterpart in structs.
type connect struct {
	Native         bool            `hcl:"native"`
	SidecarService *sidecarService `hcl:"sidecar_service,block"`
	SidecarTask    *sidecarTask    `hcl:"sidecar_task,block"`
	Gateway        *gateway        `hcl:"gateway,block"`
}

type sidecarService struct {
	Tags                   []string          `hcl:"tags"`
	Port                   string            `hcl:"port"`
	Proxy                  *connectProxy     `hcl:"proxy,block"`
	DisableDefaultTCPCheck bool              `hcl:"disable_default_tcp_check"`
	Meta                   map[string]string `hcl:"meta"`
}

type sidecarTask struct {
	At            hcl.Range         `hcl:",range"`
	Name          string            `hcl:"name"`
	Driver        string            `hcl:"driver"`
	User          string            `hcl:"user"`
	Config        map[string]any    `hcl:"config"`
	Env           map[string]string `hcl:"env"`
	Resources     *resources        `hcl:"resources,block"`
	Meta          map[string]string `hcl:"meta"`
	KillTimeout   *time.Duration    `hcl:"kill_timeout"`
	LogConfig     *logs             `hcl:"logs,block"`
	ShutdownDelay *time.Duration    `hcl:"shutdown_delay"`
	KillSignal    string            `hcl:"kill_signal"`
	VolumeMounts  []*volumeMount    `hcl:"volume_mount,block"`
}

type connectProxy struct {
	LocalServiceAddress string         `hcl:"local_service_address"`
	LocalServicePort    int            `hcl:"local_service_port"`
	Expose              *expose        `hcl:"expose,block"`
	Upstreams           []*upstream    `hcl:"upstreams,block"`
	Config              map[string]any `hcl:"config"`
}

type upstream struct {
	DestinationName      string         `hcl:"destination_name,required"`
	DestinationNamespace string         `hcl:"destination_namespace"`
	DestinationPeer      string         `hcl:"destination_peer"`
	DestinationType      string         `hcl:"destination_type"`
	LocalBindPort        int            `hcl:"local_bind_port"`
	Datacenter           string         `hcl:"datacenter"`
	LocalBindAddress     string         `hcl:"local_bind_address"`
	LocalBindSocketPath  string         `hcl:"local_bind_socket_path"`
	LocalBindSocketMode  string         `hcl:"local_bind_socket_mode"`
	MeshGateway          *meshGateway   `hcl:"mesh_gateway,block"`
	Config               map[string]any `hcl:"config"`
}

type meshGateway struct {
	Mode string `hcl:"mode"`
}

type expose struct {
	Paths []*exposePath `hcl:"path,block"`
}

type exposePath struct {
	Path          string `hcl:"path,required"`
	Protocol      string `hcl:"protocol"`
	LocalPathPort int    `hcl:"local_path_port,required"`
	ListenerPort  string `hcl:"listener_port,required"`
}

type gateway struct {
	Proxy       *gatewayProxy `hcl:"proxy,block"`
	Ingress     *ingress      `hcl:"ingress,block"`
	Terminating *terminating  `hcl:"terminating,block"`
	Mesh        *mesh         `hcl:"mesh,block"`
}

type gatewayProxy struct {
	ConnectTimeout                  *time.Duration          `hcl:"connect_timeout"`
	EnvoyGatewayBindTaggedAddresses bool                    `hcl:"envoy_gateway_bind_tagged_addresses"`
	EnvoyGatewayBindAddresses       map[string]*bindAddress `hcl:"envoy_gateway_bind_addresses,block"`
	EnvoyGatewayNoDefaultBind       bool                    `hcl:"envoy_gateway_no_default_bind"`
	EnvoyDNSDiscoveryType           string                  `hcl:"envoy_dns_discovery_type"`
	Config                          map[string]any          `hcl:"config"`
}

type bindAddress struct {
	Address string `hcl:"address,required"`
	Port    int    `hcl:"port,required"`
}

type ingress struct {
	TLS       *gatewayTLS `hcl:"tls,block"`
	Listeners []*listener `hcl:"listener,block"`
}

type gatewayTLS struct {
	Enabled       bool     `hcl:"enabled"`
	TLSMinVersion string   `hcl:"tls_min_version"`
	TLSMaxVersion string   `hcl:"tls_max_version"`
	CipherSuites  []string `hcl:"cipher_suites"`
}

type listener struct {
	Port     int               `hcl:"port,required"`
	Protocol string            `hcl:"protocol"`
	Services []*ingressService `hcl:"service,block"`
}

type ingressService struct {
	Name  string   `hcl:"name,required"`
	Hosts []string `hcl:"hosts"`
}

func (ingressService) Unsupported() string {
	return "max_concurrent_requests max_connections max_pending_requests request_headers response_headers tls"
}

type terminating struct {
	Services []*linkedService `hcl:"service,block"`
}

type linkedService struct {
	Name     string `hcl:"name,required"`
	CAFile   string `hcl:"ca_file"`
	CertFile string `hcl:"cert_file"`
	KeyFile  string `hcl:"key_file"`
	SNI      string `hcl:"sni"`
}

type mesh struct{}

func (c *converter) connect(x *connect) *structs.Connect {
	if x == nil {
		return nil
	}

	out := &structs.Connect{
		Native:      x.Native,
		SidecarTask: c.sidecarTask(x.SidecarTask),
		Gateway:     x.Gateway.gateway(),
	}

	if s := x.SidecarService; s != nil {
		out.SidecarService = &structs.SidecarService{
			Tags:                   s.Tags,
			Port:                   s.Port,
			Proxy:                  s.Proxy.proxy(),
			DisableDefaultTCPCheck: s.DisableDefaultTCPCheck,
			Meta:                   s.Meta,
		}
	}

	return out
}

func (c *converter) sidecarTask(t *sidecarTask) *structs.SidecarTask {
	if t == nil {
		return nil
	}

	out := &structs.SidecarTask{
		Name:          t.Name,
		Driver:        t.Driver,
		User:          t.User,
		Config:        t.Config,
		Env:           t.Env,
		Meta:          t.Meta,
		KillTimeout:   t.KillTimeout,
		LogConfig:     t.LogConfig.config(),
		ShutdownDelay: t.ShutdownDelay,
		KillSignal:    t.KillSignal,
	}

	if r := t.Resources; r != nil {
		out.Resources = c.resources(r)
		// A network there was moved to the group in other tasks. A sidecar has none of its own.
		for _, n := range r.Networks {
			c.fault(n.At, "a network in the resources of a sidecar_task; write network in the group")
		}
	}

	out.VolumeMounts = mounts(t.VolumeMounts)

	return out
}

func (p *connectProxy) proxy() *structs.ConnectProxy {
	if p == nil {
		return nil
	}

	out := &structs.ConnectProxy{
		LocalServiceAddress: p.LocalServiceAddress,
		LocalServicePort:    p.LocalServicePort,
		Config:              p.Config,
	}

	if p.Expose != nil {
		out.Expose = &structs.ConnectExpose{}
		for _, x := range p.Expose.Paths {
			out.Expose.Paths = append(out.Expose.Paths, (*structs.ConnectExposePath)(x))
		}
	}

	for _, u := range p.Upstreams {
		out.Upstreams = append(out.Upstreams, u.upstream())
	}

	return out
}

func (u *upstream) upstream() *structs.ConnectUpstream {
	return &structs.ConnectUpstream{
		DestinationName:      u.DestinationName,
		DestinationNamespace: u.DestinationNamespace,
		DestinationPeer:      u.DestinationPeer,
		DestinationType:      u.DestinationType,
		LocalBindPort:        u.LocalBindPort,
		Datacenter:           u.Datacenter,
		LocalBindAddress:     u.LocalBindAddress,
		LocalBindSocketPath:  u.LocalBindSocketPath,
		LocalBindSocketMode:  u.LocalBindSocketMode,
		MeshGateway:          (*structs.ConnectMeshGateway)(u.MeshGateway),
		Config:               u.Config,
	}
}

func (g *gateway) gateway() *structs.Gateway {
	if g == nil {
		return nil
	}
	out := &structs.Gateway{
		Proxy:   g.Proxy.proxy(),
		Ingress: g.Ingress.ingress(),
		Mesh:    (*structs.GatewayMesh)(g.Mesh),
	}
	if g.Terminating != nil {
		out.Terminating = &structs.GatewayTerminating{}
		for _, s := range g.Terminating.Services {
			out.Terminating.Services = append(out.Terminating.Services, (*structs.GatewayLinkedService)(s))
		}
	}
	return out
}

func (p *gatewayProxy) proxy() *structs.GatewayProxy {
	if p == nil {
		return nil
	}

	out := &structs.GatewayProxy{
		ConnectTimeout:                  p.ConnectTimeout,
		EnvoyGatewayBindTaggedAddresses: p.EnvoyGatewayBindTaggedAddresses,
		EnvoyGatewayNoDefaultBind:       p.EnvoyGatewayNoDefaultBind,
		EnvoyDNSDiscoveryType:           p.EnvoyDNSDiscoveryType,
		Config:                          p.Config,
	}

	for name, a := range p.EnvoyGatewayBindAddresses {
		// Without addresses the map stays nil, as in a job that came as JSON.
		if out.EnvoyGatewayBindAddresses == nil {
			out.EnvoyGatewayBindAddresses = map[string]*structs.GatewayBindAddress{}
		}

		out.EnvoyGatewayBindAddresses[name] = &structs.GatewayBindAddress{
			Address: a.Address,
			Port:    a.Port,
		}
	}

	return out
}

func (i *ingress) ingress() *structs.GatewayIngress {
	if i == nil {
		return nil
	}
	out := &structs.GatewayIngress{TLS: (*structs.GatewayTLS)(i.TLS)}
	for _, l := range i.Listeners {
		port := &structs.GatewayListener{
			Port:     l.Port,
			Protocol: l.Protocol,
		}
		for _, s := range l.Services {
			port.Services = append(port.Services, (*structs.GatewayIngressService)(s))
		}
		out.Listeners = append(out.Listeners, port)
	}
	return out
}
