package login

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/vault"
)

// fingerprintInterval is the time between two looks at Vault, as in the dialect.
const fingerprintInterval = 15 * time.Second

// Fingerprint has the attributes that a node gets from its Vault. They stay while Vault is away, because the
// tasks of the node run on.
type Fingerprint struct {
	client *vault.Client // nil: the node uses none
	logger hclog.Logger

	changes chan struct{}

	mu         sync.Mutex
	attributes map[string]string
}

// NewFingerprint makes a fingerprint without attributes.
func NewFingerprint(client *vault.Client, logger hclog.Logger) *Fingerprint {
	return &Fingerprint{client: client, logger: logger.Named("vault"), changes: make(chan struct{}, 1)}
}

// Run looks at Vault until ctx ends.
func (f *Fingerprint) Run(ctx context.Context) {
	if f.client == nil {
		return
	}

	available := false
	for ctx.Err() == nil {
		now, err := f.client.Attributes(ctx)
		switch {
		case err == nil:
			if !available {
				f.logger.Info("Vault is available")
			}
			f.set(now)
		case available && ctx.Err() == nil:
			f.logger.Warn("Vault is not available; tasks keep their tokens", "error", err)
		case ctx.Err() == nil:
			f.logger.Debug("Vault is not available", "error", err)
		}

		available = err == nil
		backoff.Sleep(ctx, fingerprintInterval)
	}
	f.client.Close()
}

func (f *Fingerprint) set(now map[string]string) {
	f.mu.Lock()
	same := maps.Equal(f.attributes, now)
	f.attributes = now
	f.mu.Unlock()
	if same {
		return
	}

	select {
	case f.changes <- struct{}{}:
	default:
	}
}

// Attributes returns the attributes. The map is the caller's.
func (f *Fingerprint) Attributes() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.attributes)
}

// Changes receives a value after Attributes may have changed. It has one reader.
func (f *Fingerprint) Changes() <-chan struct{} { return f.changes }
