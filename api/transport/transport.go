// Package transport connects the Go client of the HTTP API with one agent, over TCP, TLS or a Unix socket. It
// explains the faults of a connection with the option that mends them.
package transport

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth/structs"
)

// handshakeTimeout bounds the handshake of TLS: a port of another protocol may accept it and stay silent.
const handshakeTimeout = 10 * time.Second

// Transport makes the connections to one agent. It is safe for concurrent use.
type Transport struct {
	HTTP    *http.Transport
	Base    *url.URL // of the requests, without a path
	address string   // as the user gave it
	tls     TLS
}

// Open returns the transport to the agent at an address: http://host:port, https://host:port or unix:///path.
// It reads the files of TLS, and connects nowhere. The error is invalid.
func Open(address string, t TLS) (*Transport, error) {
	base, err := parseAddress(address)
	if err != nil {
		return nil, err
	}

	tr := &Transport{
		HTTP:    &http.Transport{MaxIdleConnsPerHost: 8, TLSHandshakeTimeout: handshakeTimeout},
		Base:    base,
		address: address,
	}

	if base.Scheme == "https" {
		tr.tls = t.withEnvironment()
		tr.HTTP.TLSClientConfig, err = tr.tls.config()
		return tr, err
	}

	// Settings from the environment may be there for other addresses. Those that were given here were meant
	// for this one.
	if t != (TLS{}) {
		return nil, structs.Invalidf("the options of TLS need an address of the form https://host:port, "+
			"and the address is %s (-address, BERTH_ADDR)", address)
	}

	if base.Scheme == "unix" {
		// The host is only for the header: the agent accepts localhost.
		tr.Base = &url.URL{Scheme: "http", Host: "localhost"}
		tr.HTTP.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", base.Path)
		}
	}

	return tr, nil
}

// An address without a scheme is an HTTP port, as users type it.
func parseAddress(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err == nil {
		overHTTP := u.Scheme == "http" || u.Scheme == "https"
		if overHTTP && u.Host != "" || u.Scheme == "unix" {
			return u, nil
		}
	}
	return nil, structs.Invalidf(
		"the address %q is not of the form http://host:port, https://host:port or unix:///path", s)
}
