package mesh

import (
	"maps"

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

// Gateway resolves the proxy of a service, whose Connect has a Gateway: addresses with a negative port have
// that of the service, or of the address lan of a mesh gateway. The error is invalid.
func (r Resolver) Gateway(s *structs.Service) (*Gateway, error) {
	given := *s.Connect.Gateway
	out := &Gateway{Gateway: &given}
	ports := map[string]string{} // labels by the names of addresses
	if given.Mesh != nil {
		ports[lan] = structs.KindConnectMesh + "-" + s.Name + "-" + lan
		out.TaggedAddresses = map[string]structs.AllocatedPort{}
		for name, label := range map[string]string{wan: r.Expand(s.PortLabel), lan: ports[lan]} {
			if p := r.port(label); p != nil {
				out.TaggedAddresses[name] = *p
			}
		}
	}
	if given.Proxy == nil {
		return out, nil
	}
	proxy := *given.Proxy
	proxy.Config = r.expandMap(proxy.Config)
	proxy.EnvoyGatewayBindAddresses = maps.Clone(proxy.EnvoyGatewayBindAddresses)
	for name, a := range proxy.EnvoyGatewayBindAddresses {
		if a == nil || a.Port >= 0 {
			continue
		}
		label, ok := ports[name]
		if !ok {
			label = s.PortLabel
		}
		port, err := r.portInside(label)
		if err != nil {
			return nil, structs.Invalidf("the address %q of its gateway: %w",
				structs.Cut(name, structs.MaxQuoted), err)
		}
		bound := *a
		bound.Port = port
		proxy.EnvoyGatewayBindAddresses[name] = &bound
	}
	given.Proxy = &proxy
	return out, nil
}
