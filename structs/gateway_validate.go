package structs

import "strings"

func (g *Gateway) validate(f fieldErrors, s *Service, group *TaskGroup) {
	kinds := 0
	for _, has := range []bool{g.Ingress != nil, g.Terminating != nil, g.Mesh != nil} {
		if has {
			kinds++
		}
	}

	f.require(kinds == 1, "it has %d of ingress, terminating and mesh; expected one", kinds)
	n := group.Network()
	f.require(n != nil && (n.Mode == NetworkModeHost || n.Mode == NetworkModeBridge),
		"a gateway needs a network of the group with mode = %q or %q", NetworkModeBridge, NetworkModeHost)
	if g.Proxy != nil {
		g.Proxy.validate(f.at("proxy"))
	}

	switch {
	case g.Ingress != nil:
		g.Ingress.validate(f.at("ingress"))
	case g.Terminating != nil:
		g.Terminating.validate(f.at("terminating"))
	case g.Mesh != nil:
		f.require(s.PortLabel != "", "mesh: the service needs a port, at which other datacenters reach the gateway")
	}
}

func (p *GatewayProxy) validate(f fieldErrors) {
	if p.ConnectTimeout != nil {
		f.checkDuration("connect_timeout", *p.ConnectTimeout, MaxTaskWait)
	}

	f.checkOneOf("envoy_dns_discovery_type", p.EnvoyDNSDiscoveryType, []string{"", "STRICT_DNS", "LOGICAL_DNS"})
	f.checkProxyConfig(p.Config)
	addresses := p.EnvoyGatewayBindAddresses
	if f.atMost("envoy_gateway_bind_addresses", len(addresses), MaxMeshItems) < len(addresses) {
		return
	}

	for name, a := range addresses {
		f := f.at("envoy_gateway_bind_addresses %q", name)
		f.checkString("the name", name, MaxName)
		if a == nil {
			f.addf("it is null")
			continue
		}

		f.require(a.Address != "", "address is required")
		f.checkBindAddress("address", a.Address)
		f.require(a.Port == DynamicBind || a.Port >= 1 && a.Port <= MaxPort,
			"port %d must be from 1 to %d, or %d for the port of the service", a.Port, MaxPort, DynamicBind)
	}
}

func (i *GatewayIngress) validate(f fieldErrors) {
	if i.TLS != nil {
		i.TLS.validate(f.at("tls"))
	}
	f.require(len(i.Listeners) > 0, "at least one listener is required")
	ports := map[int]bool{}
	for n, l := range firstOf(f, "listeners", i.Listeners, MaxMeshItems) {
		if l == nil {
			f.addf("listener %d is null", n+1)
			continue
		}
		f := f.at("listener %d", n+1)
		l.validate(f)
		f.require(!ports[l.Port], "port %d is that of another listener, too", l.Port)
		ports[l.Port] = true
	}
}

// tlsVersions are the versions that Consul knows.
var tlsVersions = []string{"", "TLS_AUTO", "TLSv1_0", "TLSv1_1", "TLSv1_2", "TLSv1_3"}

func (t *GatewayTLS) validate(f fieldErrors) {
	f.checkOneOf("tls_min_version", t.TLSMinVersion, tlsVersions)
	f.checkOneOf("tls_max_version", t.TLSMaxVersion, tlsVersions)
	for _, suite := range firstOf(f, "cipher_suites", t.CipherSuites, MaxMeshItems) {
		f.checkName("cipher_suites: a suite", suite)
	}
}

func (l *GatewayListener) validate(f fieldErrors) {
	f.checkRange("port", l.Port, intRange{1, MaxPort, ""})
	f.checkOneOf("protocol", l.Protocol, []string{DefaultListenerProtocol, "http", "http2", "grpc"})
	f.require(len(l.Services) > 0, "at least one service is required")
	f.require(l.Protocol != DefaultListenerProtocol || len(l.Services) <= 1,
		"protocol %q: such a listener leads to one service", l.Protocol)
	seen := map[string]bool{}
	for i, s := range firstOf(f, "services", l.Services, MaxMeshItems) {
		if s == nil {
			f.addf("service %d is null", i+1)
			continue
		}
		f := f.at("service %d", i+1)
		f.require(!seen[s.Name], "name %q is that of another service of the listener, too", s.Name)
		seen[s.Name] = true
		s.validate(f, l.Protocol)
	}
}

// anyService is the name that means each service of a protocol.
const anyService = "*"

func (s *GatewayIngressService) validate(f fieldErrors, protocol string) {
	f.checkMeshName("name", s.Name)
	f.require(protocol != DefaultListenerProtocol || s.Name != anyService,
		"name %q is for listeners of other protocols than %q", anyService, protocol)
	f.require(protocol != DefaultListenerProtocol || len(s.Hosts) == 0,
		"hosts are for listeners of other protocols than %q", protocol)
	f.require(s.Name != anyService || len(s.Hosts) == 0,
		"hosts: a service with the name %q has none", anyService)
	for _, host := range firstOf(f, "hosts", s.Hosts, MaxMeshItems) {
		f.checkString("hosts: a host", host, MaxName)
		f.require(host != "" && !strings.ContainsAny(host, " /"), "hosts: %q is not the name of a host", host)
	}
}

func (t *GatewayTerminating) validate(f fieldErrors) {
	f.require(len(t.Services) > 0, "at least one service is required")
	seen := map[string]bool{}
	for i, s := range firstOf(f, "services", t.Services, MaxMeshItems) {
		if s == nil {
			f.addf("service %d is null", i+1)
			continue
		}
		f := f.at("service %d", i+1)
		f.require(!seen[s.Name], "name %q is that of another service of the gateway, too", s.Name)
		seen[s.Name] = true
		s.validate(f)
	}
}

func (s *GatewayLinkedService) validate(f fieldErrors) {
	f.checkMeshName("name", s.Name)
	f.checkText("ca_file", s.CAFile)
	f.checkText("cert_file", s.CertFile)
	f.checkText("key_file", s.KeyFile)
	f.checkText("sni", s.SNI)
	f.require((s.CertFile == "") == (s.KeyFile == ""), "cert_file and key_file go together")
	f.require(s.CAFile != "" || s.CertFile == "" && s.KeyFile == "" && s.SNI == "",
		"ca_file is required with cert_file, key_file or sni")
}
