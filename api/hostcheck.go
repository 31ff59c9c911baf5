package api

import (
	"net"
	"strings"

	"berth/structs"
)

// CheckHost rejects a request whose Host header is neither an address nor a name of this agent. A hostile
// page may have its own name resolve to the agent (DNS rebinding) and then has the same origin as the agent.
// An address and localhost cannot resolve to another machine. A request of HTTP/1.0 without a host does not
// come from a browser.
func CheckHost(names []string, host string) error {
	name := hostName(host)
	if name == "" ||
		name == "localhost" ||
		net.ParseIP(name) != nil {
		return nil
	}
	for _, allowed := range names {
		if isHost(name, strings.ToLower(allowed)) {
			return nil
		}
	}
	return structs.Deniedf("the host %q is not a name of this agent; "+
		"add it to http_allowed_hosts in the agent's configuration if it is",
		structs.Cut(name, structs.MaxQuoted))
}

// hostName returns the Host header without its port and in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isHost reports whether a name matches an allowed one. *.example.com matches every name below example.com.
func isHost(name, allowed string) bool {
	domain, wildcard := strings.CutPrefix(allowed, "*")
	if wildcard && strings.HasPrefix(domain, ".") {
		return strings.HasSuffix(name, domain)
	}
	return name == allowed
}
