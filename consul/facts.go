package consul

import (
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-version"

	"berth/structs"
)

// This file reads the attributes of a node from the description that its Consul gives of itself.

// factACLs is the attribute that says whether Consul's ACLs are on.
const factACLs = "consul.acl"

// grpcTLSSince returns the version of Consul with a port of its own for gRPC with TLS. The library compiles a
// large regular expression for its first version, for which no command waits.
var grpcTLSSince = sync.OnceValue(func() *version.Version {
	return version.Must(version.NewVersion("1.14.0"))
})

// factAttributes returns the attributes of the dialect from Consul's description of itself.
func factAttributes(self map[string]map[string]any, https bool) map[string]string {
	out := map[string]string{}

	// The description is Consul's, so values of other types are left out, and texts are cut.
	add := func(name string, value any) {
		switch v := value.(type) {
		case string:
			if v != "" {
				out[name] = structs.Cut(v, structs.MaxName)
			}
		case bool:
			out[name] = strconv.FormatBool(v)
		// A number of JSON. Those of the description are ports.
		case float64:
			out[name] = strconv.Itoa(int(v))
		}
	}

	config := self["Config"]
	debug := self["DebugConfig"]
	add("consul.server", config["Server"])
	add("consul.version", config["Version"])
	add("consul.revision", config["Revision"])
	add("consul.datacenter", config["Datacenter"])
	add("unique.consul.name", config["NodeName"])
	add("consul.connect", debug["ConnectEnabled"])
	add(factACLs, debug["ACLsEnabled"])
	if tags, ok := self["Member"]["Tags"].(map[string]any); ok {
		add("consul.segment", tags["segment"])
	}

	port := "GRPCPort"
	v, err := version.NewVersion(strings.TrimSpace(out["consul.version"]))
	if err == nil {
		// The enterprise edition says so in the metadata of its version, such as 1.14.0+ent.
		out["consul.sku"] = "oss"
		if strings.Contains(v.Metadata(), "ent") {
			out["consul.sku"] = "ent"
		}

		if https && !v.Core().LessThan(grpcTLSSince()) {
			port = "GRPCTLSPort"
		}
	}

	add("consul.grpc", debug[port])
	return out
}
