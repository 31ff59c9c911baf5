package structs

import "strings"

// EnvoyOnly names the first setting that Consul's own proxy does not have, "" if there is none.
func (p *ConnectProxy) EnvoyOnly() string {
	if p == nil {
		return ""
	}

	if p.Expose != nil && len(p.Expose.Paths) > 0 {
		return "expose"
	}

	bound := map[string]bool{}
	for _, u := range p.Upstreams {
		if u == nil {
			continue
		}

		setting := u.envoyOnly()
		if setting == "" && bound[u.DestinationName] {
			setting = "a second port for it"
		}

		if setting != "" {
			return "upstream " + u.DestinationName + ": " + setting
		}

		bound[u.DestinationName] = true
	}

	return ""
}

func (u *ConnectUpstream) envoyOnly() string {
	switch {
	case u.LocalBindSocketPath != "":
		return "local_bind_socket_path"
	case u.DestinationPeer != "":
		return "destination_peer"
	case u.Datacenter != "":
		return "datacenter"
	case u.MeshGateway != nil && u.MeshGateway.Mode != "":
		return "mesh_gateway"
	case strings.Contains(u.LocalBindAddress, ":"):
		return "a local_bind_address of IPv6"
	case strings.ContainsAny(u.DestinationName, ".:") && !HasPlaceholder(u.DestinationName):
		return "a name with a dot or a colon"
	}
	return ""
}
