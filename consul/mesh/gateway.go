package mesh

import (
	"cmp"
	"maps"
	"net"

	"berth/internal/placeholder"
	"berth/structs"
)

// Gateway is the proxy of a gateway of an allocation.
type Gateway struct {
	*structs.Gateway
	// TaggedAddresses are the addresses of a mesh gateway in Consul, by their names there.
	TaggedAddresses map[string]structs.AllocatedPort
}

// The names in Consul of the addresses of a mesh gateway: for the own datacenter, and for the others.
const (
	lan = "lan"
	wan = "wan"
)

// Gateway resolves the proxy of a service, whose Connect has a Gateway: an address with a negative port gets
// the port of the service, or of the address lan of a mesh gateway. The error is invalid.
func (r Resolver) Gateway(s *structs.Service) (*Gateway, error) {
	// The job is shared: each level that changes is a copy.
	given := *s.Connect.Gateway
	out := &Gateway{Gateway: &given}
	ports := map[string]string{} // labels by the names of addresses
	if given.Mesh != nil {
		ports[lan] = structs.MeshLANPort(s.Name)
		out.TaggedAddresses = map[string]structs.AllocatedPort{}

		// Other datacenters use the port of the service. The own one has a port that the registration has
		// added.
		for name, label := range map[string]string{wan: r.Expand(s.PortLabel), lan: ports[lan]} {
			if p := structs.FindPort(r.Ports, label); p != nil {
				out.TaggedAddresses[name] = *p
			}
		}
	}

	if given.Proxy == nil {
		return out, nil
	}

	proxy := *given.Proxy
	proxy.Config = placeholder.InValues(proxy.Config, r.Expand)
	proxy.EnvoyGatewayBindAddresses = maps.Clone(proxy.EnvoyGatewayBindAddresses)
	for name, a := range proxy.EnvoyGatewayBindAddresses {
		if a == nil {
			continue
		}

		bound, err := r.bindAddress(a, cmp.Or(ports[name], s.PortLabel))
		if err != nil {
			return nil, structs.Invalidf("the address %q of its gateway: %w",
				structs.Cut(name, structs.MaxQuoted), err)
		}

		proxy.EnvoyGatewayBindAddresses[name] = bound
	}

	given.Proxy = &proxy
	return out, nil
}

// bindAddress resolves an address of a gateway. A negative port stands for the port of a label.
func (r Resolver) bindAddress(
	a *structs.GatewayBindAddress, label string,
) (*structs.GatewayBindAddress, error) {
	bound := *a
	bound.Address = r.Expand(a.Address)
	if bound.Address != "" && net.ParseIP(bound.Address) == nil {
		return nil, structs.Invalidf("%q is not an IP address", structs.Cut(bound.Address, structs.MaxQuoted))
	}
	if a.Port < 0 {
		port, err := r.portInside(label)
		if err != nil {
			return nil, err
		}
		bound.Port = port
	}
	return &bound, nil
}
