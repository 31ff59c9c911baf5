package consul

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
)

// fingerprintInterval is the time between two looks at Consul, as in the dialect.
const fingerprintInterval = 15 * time.Second

// fingerprint has the attributes that a node gets from its Consul. They stay while Consul is away, because
// the tasks of the node do not depend on it.
type fingerprint struct {
	logger hclog.Logger
	self   func(ctx context.Context) (map[string]map[string]any, error)
	https  bool

	first     chan struct{} // closed after the first look
	available chan struct{} // closed after the first answer
	changes   chan struct{} // has an item after a change

	mu         sync.Mutex
	attributes map[string]string
	fault      error // of the last look, nil after an answer
}

// newFingerprint makes a fingerprint without attributes. https says how the agent reaches Consul.
func newFingerprint(client *api.Client, https bool, logger hclog.Logger) *fingerprint {
	return &fingerprint{
		logger: logger,
		self: func(ctx context.Context) (self map[string]map[string]any, err error) {
			query := (&api.QueryOptions{}).WithContext(ctx)
			_, err = client.Raw().Query("/v1/agent/self", &self, query)
			return self, err
		},
		https:     https,
		first:     make(chan struct{}),
		available: make(chan struct{}),
		changes:   make(chan struct{}, 1),
	}
}

// run looks at Consul until ctx ends.
func (f *fingerprint) run(ctx context.Context) {
	available := false
	warned := false
	once := sync.OnceFunc(func() { close(f.first) })
	answered := sync.OnceFunc(func() { close(f.available) })

	// WaitFirst must return also if the agent ends before the first look.
	defer once()
	for ctx.Err() == nil {
		self, err := f.self(ctx)
		if err != nil {
			err = plain("reading /v1/agent/self (agent:read)", err)
		}

		f.setFault(err)
		switch {
		case err == nil:
			if !available {
				f.logger.Info("Consul is available")
			}

			f.set(factAttributes(self, f.https))

			// The attributes are there before anybody who has waited reads them.
			answered()

		// Only a change is worth a warning: a machine without Consul would have one at each look.
		case available && ctx.Err() == nil:
			f.logger.Warn("Consul is not available; services keep their last state there", "error", err)
		case statusOf(err) != 0 && !warned: // it is there
			warned = true
			f.logger.Warn("Consul does not describe itself; the node has no attributes of it", "error", err)
		case ctx.Err() == nil:
			f.logger.Debug("Consul is not available", "error", err)
		}

		available = err == nil
		once()
		backoff.Sleep(ctx, fingerprintInterval)
	}
}

// set replaces the attributes, and tells the reader of changes if they differ.
func (f *fingerprint) set(now map[string]string) {
	f.mu.Lock()
	same := maps.Equal(f.attributes, now)
	f.attributes = now
	f.mu.Unlock()
	if !same {
		wake(f.changes)
	}
}

func (f *fingerprint) setFault(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = err
}

// lastFault returns the error of the last look, nil if there is none.
func (f *fingerprint) lastFault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

// current returns a copy, which the caller may keep.
func (f *fingerprint) current() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.attributes)
}
