package endpointstest

import (
	"context"
	"strings"
	"sync"

	"berth/endpoints/core"
	"berth/structs"
)

// FakeConsul makes tokens in memory. SecretFor gives the secret of a token.
type FakeConsul struct {
	mu      sync.Mutex
	Made    []core.ServiceToken
	Revoked []string
	Create  func(ctx context.Context, t core.ServiceToken) error // nil: each call succeeds
	Right   structs.Secret                                       // the token of submitters with rights
	Checked []string                                             // the services of each check
	Entries []string                                             // the gateways that were written
	Broken  error                                                // of SetGateway
}

// SetGateway implements core.Consul.
func (f *FakeConsul) SetGateway(_ context.Context, service string, _ *structs.Gateway) error {
	f.Entries = append(f.Entries, service)
	return f.Broken
}

// CheckSubmitter implements core.Consul.
func (f *FakeConsul) CheckSubmitter(_ context.Context, token structs.Secret, services []string) error {
	f.Checked = append(f.Checked, strings.Join(services, " "))
	if token != f.Right {
		return structs.Deniedf("no right")
	}
	return nil
}

// SecretFor returns the secret of the token with an accessor.
func SecretFor(accessor string) string { return "secret of " + accessor }

// CreateToken implements core.Consul.
func (f *FakeConsul) CreateToken(ctx context.Context, t core.ServiceToken) (structs.Secret, error) {
	if f.Create != nil {
		if err := f.Create(ctx, t); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Made = append(f.Made, t)
	return structs.Secret(SecretFor(t.AccessorID)), nil
}

// RevokeToken implements core.Consul.
func (f *FakeConsul) RevokeToken(ctx context.Context, accessorID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Revoked = append(f.Revoked, accessorID)
	return ctx.Err()
}
