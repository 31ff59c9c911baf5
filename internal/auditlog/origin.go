package auditlog

import (
	"context"

	"berth/structs"
)

// This file carries the origin of an HTTP request in its context, from the handler of the API to the call of
// a method.

// key is the key of an origin in a context.
type originKey struct{}

// WithOrigin returns the context of a request with an origin.
func WithOrigin(ctx context.Context, o *structs.Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginFrom returns the origin of the request of a context, nil if it came by RPC. The caller must not
// change it.
func OriginFrom(ctx context.Context) *structs.Origin {
	o, _ := ctx.Value(originKey{}).(*structs.Origin)
	return o
}
