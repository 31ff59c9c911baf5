package transport

import (
	"net/netip"
)

// Private reports whether others on the network cannot read what is sent to an address: over TLS, a Unix
// socket, or without leaving this machine. An address that is not valid counts as not private.
func Private(address string) bool {
	u, err := parseAddress(address)
	if err != nil {
		return false
	}
	if u.Scheme != "http" || u.Hostname() == "localhost" {
		return true
	}
	// A name other than localhost may lead anywhere, whatever it resolves to now.
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback()
}
