// Package mesh resolves the parts of an allocation in Consul's service mesh: the place of each proxy, the
// service behind it, and the services that it leads to. The registration in Consul, the driver that starts
// proxies and the variables of tasks have all of it from here.
package mesh

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	"berth/internal/placeholder"
	"berth/structs"
)

// Loopback is the address at which a proxy reaches its service, and its upstreams listen, if the job gives
// none.
const Loopback = "127.0.0.1"

// The sockets that lead to the Consul of the node, below the shared directory of an allocation.
const (
	HTTPSocket = "tmp/consul_http.sock"
	GRPCSocket = "tmp/consul_grpc.sock"
)

// Sidecar is the proxy of a service of an allocation, with its placeholders replaced.
type Sidecar struct {
	Service      string                // the name in Consul of the service behind it
	Port         structs.AllocatedPort // at which other proxies reach it
	LocalAddress string                // of the service, as the proxy sees it
	LocalPort    int
	Upstreams    []*structs.ConnectUpstream
	Expose       []ExposedPath
	Config       map[string]any // the proxy's own
	Tags         []string
	Meta         map[string]string
	TCPCheck     bool // Consul checks that the proxy listens
	// EnvoyOnly names a setting that Consul's own proxy does not have, "" if there is none.
	EnvoyOnly string
}

// ExposedPath is a path that a proxy serves without the service mesh.
type ExposedPath struct {
	Path, Protocol string
	LocalPort      int
	ListenerPort   int // in the network of the allocation
}

// Resolver has what the texts and labels of a service stand for.
type Resolver struct {
	Ports  []structs.AllocatedPort // of the allocation
	Expand func(string) string     // replaces placeholders
}

// Sidecar resolves the proxy of a service, whose Connect has a SidecarService. The error is invalid.
func (r Resolver) Sidecar(s *structs.Service) (*Sidecar, error) {
	given := s.Connect.SidecarService
	proxy := given.Proxy
	if proxy == nil {
		proxy = &structs.ConnectProxy{}
	}

	out := &Sidecar{
		Service:      r.Expand(s.Name),
		LocalAddress: cmp.Or(r.Expand(proxy.LocalServiceAddress), Loopback),
		LocalPort:    proxy.LocalServicePort,
		Config:       placeholder.InValues(proxy.Config, r.Expand),
		Tags:         placeholder.InList(given.Tags, r.Expand),
		Meta:         placeholder.InMap(given.Meta, r.Expand),
		TCPCheck:     !given.DisableDefaultTCPCheck,
	}

	// A sidecar without a port has one that its registration has added to the group, under this label.
	label := cmp.Or(given.Port, structs.KindConnectProxy+"-"+s.Name)
	port := structs.FindPort(r.Ports, label)
	if port == nil {
		return nil, structs.Invalidf("the port %q of its proxy is not one of the allocation",
			structs.Cut(label, structs.MaxQuoted))
	}

	out.Port = *port
	var err error
	if out.LocalPort == 0 {
		// Without local_service_port the service listens at the port of its label.
		out.LocalPort, err = r.portInside(s.PortLabel)
		if err != nil {
			return nil, structs.Invalidf("%w; its proxy has to know where it listens", err)
		}
	}

	for _, u := range proxy.Upstreams {
		out.Upstreams = append(out.Upstreams, r.upstream(u))
	}

	// Two placeholders may stand for one name, so the resolved upstreams decide.
	resolved := structs.ConnectProxy{Expose: proxy.Expose, Upstreams: out.Upstreams}
	out.EnvoyOnly = resolved.EnvoyOnly()
	if proxy.Expose != nil {
		out.Expose, err = r.exposed(proxy.Expose.Paths)
	}

	return out, err
}

// upstream returns a copy with its placeholders replaced. The job is shared.
func (r Resolver) upstream(u *structs.ConnectUpstream) *structs.ConnectUpstream {
	out := *u
	out.DestinationName = r.Expand(u.DestinationName)
	out.DestinationPeer = r.Expand(u.DestinationPeer)
	out.Datacenter = r.Expand(u.Datacenter)
	out.LocalBindAddress = r.Expand(u.LocalBindAddress)
	out.LocalBindSocketPath = r.Expand(u.LocalBindSocketPath)
	out.Config = placeholder.InValues(u.Config, r.Expand)
	return &out
}

// exposed resolves the ports of paths. The port of the listener is one of the group, by its label.
func (r Resolver) exposed(paths []*structs.ConnectExposePath) (out []ExposedPath, err error) {
	for _, p := range paths {
		listener, err := r.portInside(p.ListenerPort)
		if err != nil {
			return nil, structs.Invalidf("the exposed path %q: %w", structs.Cut(p.Path, structs.MaxQuoted),
				err)
		}
		out = append(out, ExposedPath{
			Path:         r.Expand(p.Path),
			Protocol:     p.Protocol,
			LocalPort:    p.LocalPathPort,
			ListenerPort: listener,
		})
	}
	return out, nil
}

// portInside returns the port at which tasks listen for a label or a number.
func (r Resolver) portInside(label string) (int, error) {
	label = r.Expand(label)
	if p := structs.FindPort(r.Ports, label); p != nil {
		return p.Inside(), nil
	}
	return structs.PortNumber(label)
}

// Proxy returns the work of a task of a group that is a proxy, nil for any other task. The error is invalid.
func (r Resolver) Proxy(g *structs.TaskGroup, t *structs.Task) (*Proxy, error) {
	if !t.Kind.IsProxy() {
		return nil, nil
	}

	name := t.Kind.Service()

	// The kind of a task has the name as the job writes it, with its placeholders.
	service := find(g, name)
	if service == nil {
		return nil, structs.Invalidf("task %q is the proxy of the service %q, which its group does not "+
			"have in the service mesh", t.Name, structs.Cut(name, structs.MaxQuoted))
	}

	if t.Kind.IsGateway() {
		return &Proxy{Service: r.Expand(name), Gateway: true}, nil
	}

	s, err := r.Sidecar(service)
	if err != nil {
		return nil, structs.Invalidf("service %q: %w", structs.Cut(name, structs.MaxQuoted), err)
	}

	return s.proxy(), nil
}

// find returns the service of a group with a name that has a proxy.
func find(g *structs.TaskGroup, name string) *structs.Service {
	for _, s := range g.Services {
		if s != nil && s.Name == name && HasProxy(s) {
			return s
		}
	}
	return nil
}

// HasProxy reports whether the service is reached through a proxy, or is one itself.
func HasProxy(s *structs.Service) bool {
	return s.Connect != nil && (s.Connect.SidecarService != nil || s.Connect.Gateway != nil)
}

// proxy returns what Consul's own proxy needs. Envoy gets more from Consul: see sidecarRegistration.
func (s *Sidecar) proxy() *Proxy {
	p := &Proxy{
		Service:   s.Service,
		Listen:    net.JoinHostPort(s.BindAddress(), strconv.Itoa(s.Port.Inside())),
		Local:     net.JoinHostPort(s.LocalAddress, strconv.Itoa(s.LocalPort)),
		EnvoyOnly: s.EnvoyOnly,
	}
	for _, u := range s.Upstreams {
		p.Upstreams = append(p.Upstreams, ProxyUpstream{
			Name:  u.DestinationName,
			Query: u.DestinationType == preparedQuery,
			Bind:  net.JoinHostPort(cmp.Or(u.LocalBindAddress, Loopback), strconv.Itoa(u.LocalBindPort)),
		})
	}
	return p
}

const preparedQuery = "prepared_query"

// BindAddress is the address at which the proxy listens in the network of the allocation: each of them. The
// port of the node leads to one of these, and the job does not know which.
func (s *Sidecar) BindAddress() string {
	if strings.Contains(s.Port.HostIP, ":") {
		return "::"
	}
	return "0.0.0.0"
}

// Upstreams returns the upstreams of all proxies of a group, in its order.
func Upstreams(g *structs.TaskGroup) (all []*structs.ConnectUpstream) {
	for _, s := range g.Services {
		if s == nil || s.Connect == nil || s.Connect.SidecarService == nil {
			continue
		}
		if proxy := s.Connect.SidecarService.Proxy; proxy != nil {
			all = append(all, proxy.Upstreams...)
		}
	}
	return all
}
