package consul

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strconv"

	"berth/structs"
)

// DialHTTP connects to the HTTP API of Consul. The caller talks plain HTTP: if the agent reaches Consul by
// https, so does the connection.
func (l *Link) DialHTTP(ctx context.Context) (net.Conn, error) {
	u, err := l.config.url()
	if err != nil {
		return nil, err
	}
	if u.Scheme == "https" {
		// The server name follows from the host of the dial.
		d := &tls.Dialer{Config: l.transport.TLSClientConfig.Clone()}
		return d.DialContext(ctx, "tcp", u.Host)
	}
	return dialURL(ctx, u)
}

// DialGRPC connects to the gRPC API of Consul, through which Envoy gets its configuration. The error is a
// failed precondition if Consul has none.
func (l *Link) DialGRPC(ctx context.Context) (net.Conn, error) {
	u, err := l.grpcURL()
	if err != nil {
		return nil, err
	}
	return dialURL(ctx, u)
}

// grpcURL returns the configured address, or the port that Consul has named on the host of its HTTP API.
func (l *Link) grpcURL() (*url.URL, error) {
	if l.config.GRPCAddress != "" {
		return parseAddress(l.config.GRPCAddress, false)
	}

	u, err := l.config.url()
	if err != nil {
		return nil, err
	}

	host := u.Hostname()
	// Consul serves gRPC at an address, also beside an HTTP API at a socket.
	if u.Scheme == "unix" {
		host = "127.0.0.1"
	}

	port, _ := strconv.Atoi(l.Attributes()["consul.grpc"])
	if port < 1 || port > structs.MaxPort {
		return nil, structs.Preconditionf("Consul has no port for gRPC: set ports.grpc there, " +
			"or consul.grpc_address of this agent")
	}

	return &url.URL{Scheme: "tcp", Host: net.JoinHostPort(host, strconv.Itoa(port))}, nil
}

// dialURL connects without TLS to a socket or to host:port.
func dialURL(ctx context.Context, u *url.URL) (net.Conn, error) {
	var d net.Dialer
	if u.Scheme == "unix" {
		return d.DialContext(ctx, "unix", u.Path)
	}
	return d.DialContext(ctx, "tcp", u.Host)
}
