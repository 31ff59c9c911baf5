package api

import (
	"net"
	"slices"
	"strings"

	"berth/structs"
)

// checkHost refuses a request whose Host header names neither an address nor a name of this agent: a page
// that a browser was lured to may have its own name resolve to the agent (DNS rebinding), and is then of the
// same origin as the agent. An address, and localhost, cannot be made to resolve to something else. A request
// without a host, of HTTP/1.0, is no browser's.
func (h *handler) checkHost(host string) error {
	name := hostName(host)
	if name == "" || name == "localhost" || net.ParseIP(name) != nil ||
		slices.ContainsFunc(h.AllowedHosts, func(allowed string) bool {
			return isHost(name, strings.ToLower(allowed))
		}) {
		return nil
	}
	return structs.Errorf(structs.KindDenied, "the host %q is not a name of this agent; "+
		"add it to http_allowed_hosts in the agent's configuration if it is", structs.Cut(name,
		structs.MaxQuoted))
}

// hostName is a Host header without its port, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isHost compares a name with one that is allowed; *.example.com allows every name below example.com.
func isHost(name, allowed string) bool {
	if domain, ok := strings.CutPrefix(allowed, "*"); ok && strings.HasPrefix(domain, ".") {
		return strings.HasSuffix(name, domain)
	}
	return name == allowed
}
