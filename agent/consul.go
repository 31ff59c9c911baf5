package agent

import (
	"cmp"
	"context"
	"net"
	"strconv"

	"berth/consul"
	"berth/server"
	"berth/server/consulacl"
)

// openConsul makes the link with Consul, if the configuration does not turn it off.
func (a *Agent) openConsul() (err error) {
	cfg := a.config()
	if !cfg.Consul.Enabled() {
		return nil
	}

	// The data directory outlives a restart, and no other agent of this machine has it.
	a.consul, err = consul.New(cfg.Consul, cfg.Name+"\x00"+cfg.DataDir, a.logger)

	// Only a server checks and makes tokens of Consul.
	if err != nil || !cfg.Server.Enabled {
		return err
	}

	a.acl, err = consulacl.New(cfg.Consul)
	return err
}

// closeConsul ends the connections of the server with Consul.
func (a *Agent) closeConsul() {
	if a.acl != nil {
		a.acl.Close()
	}
}

// advertiseInConsul has Consul know the ports of this agent.
func (a *Agent) advertiseInConsul() {
	cfg := a.config()
	if a.consul == nil || !cfg.Consul.AutoAdvertise {
		return
	}

	// The Consul agent of this machine makes the checks, so it can use the bound address.
	checked := func(advertised, bind string) string {
		if cfg.Consul.ChecksUseAdvertise {
			return advertised
		}

		return localAddr(bind, advertised)
	}

	http := consul.Endpoint{
		Tag:       consul.TagHTTP,
		Addr:      a.advertisedHTTP(),
		CheckAddr: checked(a.advertisedHTTP(), a.HTTPAddr()),
	}

	// Consul has no certificate of an operator, so it can only connect to a port that requires one.
	path := func(kind string) string {
		if cfg.TLS.Required() {
			return ""
		}

		return "/v1/agent/health?type=" + kind
	}

	var ports []consul.Endpoint
	if a.server != nil {
		// The port of the API is registered once per service: an agent with both parts has two.
		http.Service = cfg.Consul.ServerServiceName
		http.CheckPath = path("server")
		serf := serfAddr(a.server)
		ports = append(ports, http, consul.Endpoint{
			Service:   cfg.Consul.ServerServiceName,
			Tag:       consul.TagRPC,
			Addr:      a.server.RPCAddr(),
			CheckAddr: checked(a.server.RPCAddr(), cfg.Server.RPCBind),
		}, consul.Endpoint{
			Service:   cfg.Consul.ServerServiceName,
			Tag:       consul.TagSerf,
			Addr:      serf,
			CheckAddr: checked(serf, cfg.Server.SerfBind),
		})
	}

	if a.client != nil {
		http.Service = cfg.Consul.ClientServiceName
		http.CheckPath = path("client")
		ports = append(ports, http)
	}

	// Consul may be away now. The services are registered when it has answered: see consul.Link.Advertise.
	a.consul.Advertise(cfg.Region, ports)
}

// serfAddr returns the gossip address of a server for others.
func serfAddr(s *server.Server) string {
	m := s.Member()
	return net.JoinHostPort(m.Addr, strconv.Itoa(int(m.Port)))
}

// localAddr returns the address at which this machine reaches a port: loopback for an unspecified address.
// A port that was chosen when it was bound is in the advertised address.
func localAddr(bind, advertised string) string {
	host, port, err := net.SplitHostPort(bind)
	if err != nil {
		return advertised
	}

	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}

	// The bound port is known from the advertised address only.
	if port == "0" {
		_, port, _ = net.SplitHostPort(advertised)
	}

	return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)
}

// findServers returns a function that looks for servers in Consul, nil if the configuration does not want it.
func (a *Agent) findServers(wanted bool, tag string) func(context.Context) ([]string, error) {
	if a.consul == nil || !wanted {
		return nil
	}

	// The region does not change while the agent runs: it is no live setting.
	region := a.config().Region
	return func(ctx context.Context) ([]string, error) { return a.consul.Servers(ctx, region, tag) }
}
