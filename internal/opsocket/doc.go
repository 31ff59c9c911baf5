// Package opsocket is the operator socket of an agent: a Unix socket that root alone may open, or the user
// of an agent that does not run as root. The HTTP API is served on it, too, and the context of each request
// that came over it has a mark. The mark is a value of this process. Neither a header nor a field of a
// request sets it, and RPC does not carry it, so a request of another process by RPC never has it.
package opsocket

import "context"

// ConfigDir is the usual directory of the configuration and the keys of an agent. DataDir is the data
// directory of an agent without the setting, and Default its operator socket. OfServer is the socket of the
// unit berth-server.service, whose user may not write to DataDir.
const (
	ConfigDir = "/etc/berth"

	DataDir  = "/var/lib/berth"
	Default  = DataDir + "/berth.sock"
	OfServer = "/run/berth/berth.sock"
)

// operatorKey is the key of the mark in a context.
type operatorKey struct{}

// Mark returns the context of requests that come over the operator socket of this process.
func Mark(ctx context.Context) context.Context {
	return context.WithValue(ctx, operatorKey{}, true)
}

// Marked reports whether the request of a context came over the operator socket of this process.
func Marked(ctx context.Context) bool {
	return ctx.Value(operatorKey{}) != nil
}
