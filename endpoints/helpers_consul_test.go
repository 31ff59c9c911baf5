package endpoints

import (
	"context"
	"strings"
	"sync"

	"berth/endpoints/core"
	"berth/structs"
)

// fakeConsul makes tokens in memory. The secret of a token is that of secretFor.
type fakeConsul struct {
	mu      sync.Mutex
	made    []core.ServiceToken
	revoked []string
	create  func(ctx context.Context, t core.ServiceToken) error // nil: each call succeeds
	right   structs.Secret                                       // the token of submitters with rights
	checked []string                                             // the services of each check
	entries []string                                             // the gateways that were written
	broken  error                                                // of SetGateway
}

func (f *fakeConsul) SetGateway(_ context.Context, service string, _ *structs.Gateway) error {
	f.entries = append(f.entries, service)
	return f.broken
}

func (f *fakeConsul) CheckSubmitter(_ context.Context, token structs.Secret, services []string) error {
	f.checked = append(f.checked, strings.Join(services, " "))
	if token != f.right {
		return structs.Deniedf("no right")
	}
	return nil
}

func secretFor(accessor string) string { return "secret of " + accessor }

func (f *fakeConsul) CreateToken(ctx context.Context, t core.ServiceToken) (structs.Secret, error) {
	if f.create != nil {
		if err := f.create(ctx, t); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = append(f.made, t)
	return structs.Secret(secretFor(t.AccessorID)), nil
}

func (f *fakeConsul) RevokeToken(ctx context.Context, accessorID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revoked = append(f.revoked, accessorID)
	return ctx.Err()
}
