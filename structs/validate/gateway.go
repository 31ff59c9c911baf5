package validate

import (
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// checkGateway checks the gateway of a service of a group. Its kind decides what it may have.
func checkGateway(f field.Errors, g *structs.Gateway, s *structs.Service, group *structs.TaskGroup) {
	kinds := 0
	for _, has := range []bool{g.Ingress != nil, g.Terminating != nil, g.Mesh != nil} {
		if has {
			kinds++
		}
	}

	f.Require(kinds == 1, "it has %d of ingress, terminating and mesh; expected one", kinds)

	// Other nodes reach the gateway from outside, so it needs the network of the node, or ports of it.
	n := group.Network()
	f.Require(n != nil && (n.Mode == structs.NetworkModeHost || n.Mode == structs.NetworkModeBridge),
		"a gateway needs a network of the group with mode = %q or %q", structs.NetworkModeBridge,
		structs.NetworkModeHost)
	if g.Proxy != nil {
		checkGatewayProxy(f.At("proxy"), g.Proxy)
	}

	switch {
	case g.Ingress != nil:
		checkIngress(f.At("ingress"), g.Ingress)
	case g.Terminating != nil:
		checkTerminating(f.At("terminating"), g.Terminating)
	case g.Mesh != nil:
		f.Require(s.PortLabel != "",
			"mesh: the service needs a port, at which other datacenters reach the gateway")
	}
}

// checkGatewayProxy checks the settings of a gateway's proxy: the addresses at which it listens, by their
// names.
func checkGatewayProxy(f field.Errors, p *structs.GatewayProxy) {
	if p.ConnectTimeout != nil {
		f.CheckDuration("connect_timeout", *p.ConnectTimeout, structs.MaxTaskWait)
	}

	f.CheckOneOf("envoy_dns_discovery_type", p.EnvoyDNSDiscoveryType,
		[]string{"", "STRICT_DNS", "LOGICAL_DNS"})
	checkProxyConfig(f, p.Config)
	addresses := p.EnvoyGatewayBindAddresses
	if f.AtMost("envoy_gateway_bind_addresses", len(addresses), structs.MaxMeshItems) < len(addresses) {
		return
	}

	for name, a := range addresses {
		f := f.At("envoy_gateway_bind_addresses %q", name)
		f.CheckString("the name", name, structs.MaxName)
		if a == nil {
			f.Addf("it is null")
			continue
		}

		f.Require(a.Address != "", "address is required")
		checkBindAddress(f, "address", a.Address)
		f.Require(a.Port == structs.DynamicBind || a.Port >= 1 && a.Port <= structs.MaxPort,
			"port %d must be from 1 to %d, or %d for the port of the service", a.Port, structs.MaxPort,
			structs.DynamicBind)
	}
}

// checkIngress checks the listeners of a gateway into the service mesh. No two may have one port.
func checkIngress(f field.Errors, i *structs.GatewayIngress) {
	if i.TLS != nil {
		checkTLS(f.At("tls"), i.TLS)
	}

	f.Require(len(i.Listeners) > 0, "at least one listener is required")
	ports := map[int]bool{}
	for n, l := range field.FirstOf(f, "listeners", i.Listeners, structs.MaxMeshItems) {
		if l == nil {
			f.Addf("listener %d is null", n+1)
			continue
		}

		f := f.At("listener %d", n+1)
		checkListener(f, l)
		f.Require(!ports[l.Port], "port %d is that of another listener, too", l.Port)
		ports[l.Port] = true
	}
}

// tlsVersions are the versions that Consul knows.
var tlsVersions = []string{"", "TLS_AUTO", "TLSv1_0", "TLSv1_1", "TLSv1_2", "TLSv1_3"}

// checkTLS checks the versions and cipher suites of a gateway. Consul decides whether it has a suite.
func checkTLS(f field.Errors, t *structs.GatewayTLS) {
	f.CheckOneOf("tls_min_version", t.TLSMinVersion, tlsVersions)
	f.CheckOneOf("tls_max_version", t.TLSMaxVersion, tlsVersions)
	for _, suite := range field.FirstOf(f, "cipher_suites", t.CipherSuites, structs.MaxMeshItems) {
		f.CheckName("cipher_suites: a suite", suite)
	}
}

// checkListener checks a listener and the services to which it leads. One for plain TCP cannot tell the
// requests of several services apart.
func checkListener(f field.Errors, l *structs.GatewayListener) {
	f.CheckRange("port", l.Port, field.Between(1, structs.MaxPort))
	f.CheckOneOf("protocol", l.Protocol, []string{structs.DefaultListenerProtocol, "http", "http2", "grpc"})
	f.Require(len(l.Services) > 0, "at least one service is required")
	f.Require(l.Protocol != structs.DefaultListenerProtocol || len(l.Services) <= 1,
		"protocol %q: such a listener leads to one service", l.Protocol)
	seen := map[string]bool{}
	for i, s := range field.FirstOf(f, "services", l.Services, structs.MaxMeshItems) {
		if s == nil {
			f.Addf("service %d is null", i+1)
			continue
		}

		f := f.At("service %d", i+1)
		f.Require(!seen[s.Name], "name %q is that of another service of the listener, too", s.Name)
		seen[s.Name] = true
		checkIngressService(f, s, l.Protocol)
	}
}

// anyService is the name that means each service of a protocol.
const anyService = "*"

// checkIngressService checks a service of a listener. Hosts, and a name that means each service, need a
// protocol with names of hosts.
func checkIngressService(f field.Errors, s *structs.GatewayIngressService, protocol string) {
	checkMeshName(f, "name", s.Name)
	f.Require(protocol != structs.DefaultListenerProtocol || s.Name != anyService,
		"name %q is for listeners of other protocols than %q", anyService, protocol)
	f.Require(protocol != structs.DefaultListenerProtocol || len(s.Hosts) == 0,
		"hosts are for listeners of other protocols than %q", protocol)
	f.Require(s.Name != anyService || len(s.Hosts) == 0,
		"hosts: a service with the name %q has none", anyService)
	for _, host := range field.FirstOf(f, "hosts", s.Hosts, structs.MaxMeshItems) {
		f.CheckString("hosts: a host", host, structs.MaxName)
		f.Require(host != "" && !strings.ContainsAny(host, " /"), "hosts: %q is not the name of a host", host)
	}
}

// checkTerminating checks the services outside of the service mesh to which a gateway leads, each once.
func checkTerminating(f field.Errors, t *structs.GatewayTerminating) {
	f.Require(len(t.Services) > 0, "at least one service is required")
	seen := map[string]bool{}
	for i, s := range field.FirstOf(f, "services", t.Services, structs.MaxMeshItems) {
		if s == nil {
			f.Addf("service %d is null", i+1)
			continue
		}

		f := f.At("service %d", i+1)
		f.Require(!seen[s.Name], "name %q is that of another service of the gateway, too", s.Name)
		seen[s.Name] = true
		checkLinkedService(f, s)
	}
}

// checkLinkedService checks how a gateway reaches a service. The files are on the machine of the gateway.
func checkLinkedService(f field.Errors, s *structs.GatewayLinkedService) {
	checkMeshName(f, "name", s.Name)
	f.CheckText("ca_file", s.CAFile)
	f.CheckText("cert_file", s.CertFile)
	f.CheckText("key_file", s.KeyFile)
	f.CheckText("sni", s.SNI)
	f.Require((s.CertFile == "") == (s.KeyFile == ""), "cert_file and key_file go together")
	f.Require(s.CAFile != "" || s.CertFile == "" && s.KeyFile == "" && s.SNI == "",
		"ca_file is required with cert_file, key_file or sni")
}
