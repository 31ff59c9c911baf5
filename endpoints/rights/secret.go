package rights

import (
	"context"

	"berth/internal/mvcc"
)

type secretKey struct{}

// KeepSecret keeps the secret of a request in the context of its handler, because no payload of the log may
// have it. The context of a request without one, such as a node's, stays as it is.
func KeepSecret(ctx context.Context, req any) context.Context {
	secret := SecretOf(req)
	if secret == "" {
		return ctx
	}
	return context.WithValue(ctx, secretKey{}, secret)
}

func secretKept(ctx context.Context) string {
	secret, _ := ctx.Value(secretKey{}).(string)
	return secret
}

// CallerOf returns the caller of the request that a context is of. Without access control, and for a machine,
// it has nothing.
func (g *Gate) CallerOf(ctx context.Context, tx mvcc.Reader) Caller {
	secret := secretKept(ctx)
	if !g.Enabled() || secret == "" {
		return Caller{}
	}

	// The gate has let the request pass. Where denials are only logged, the token may be none.
	caller, err := g.Resolve(ctx, tx, secret)
	if err != nil {
		return Caller{}
	}
	return caller
}
