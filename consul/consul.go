// Package consul connects an agent with the Consul agent of its machine. A Syncer keeps the services of the
// agent and of its allocations there, sends the results of the checks that berth runs, and reads the results
// of Consul's own. A fingerprint has the attributes that the node gets from Consul.
//
// Nothing depends on an answer of Consul: while it is away, slow or broken, the agent and its tasks run on
// with what they know, and the Syncer repeats its work until Consul has the wanted services.
//
// A service in Consul says in its meta which agent has registered it, and with which definition. Only an
// agent's own services count as leftovers. A definition that is still the same keeps the tags that others
// have given a service with enable_tag_override, also after a restart of the agent; a new one replaces them
// (ADR 39).
package consul

import (
	"context"
	"net/http"
	"sync"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"
)

// Link is the connection of an agent with Consul.
type Link struct {
	*Syncer
	config      Config
	client      *api.Client
	waiting     *api.Client // for blocking queries
	transport   *http.Transport
	fingerprint *fingerprint
	advertised  []*Service // of the agent itself
}

// New makes the link of an agent with a valid configuration. identity tells the agent apart from others
// that use the same Consul, and must be the same after a restart. New does not call Consul. The error is
// invalid.
func New(c Config, identity string, logger hclog.Logger) (*Link, error) {
	client, transport, err := c.open()
	if err != nil {
		return nil, err
	}

	// A blocking query lasts longer than the timeout of the configuration. Its context ends it.
	waiting, err := c.client(transport, 0, maxLookup)
	if err != nil {
		return nil, err
	}

	logger = logger.Named("consul")
	u, err := c.url()
	if err != nil {
		return nil, err
	}

	return &Link{
		// The digest goes into the meta of services, where the data directory of the agent need not be known.
		Syncer:      newSyncer(client.Agent(), digestOf(identity), logger),
		config:      c,
		client:      client,
		waiting:     waiting,
		transport:   transport,
		fingerprint: newFingerprint(client, u.Scheme == "https", logger),
	}, nil
}

// Run works until ctx ends. It then syncs the services for the last time, removes the services of
// PutUntilEnd, and waits for all that it has started.
func (l *Link) Run(ctx context.Context) {
	defer l.transport.CloseIdleConnections()
	var loops sync.WaitGroup

	// Each loop ends with ctx. The syncer has time for its last sync after that.
	loops.Go(func() { l.Syncer.run(ctx) })
	loops.Go(func() { l.runBeats(ctx) })
	loops.Go(func() { l.runStatus(ctx) })
	loops.Go(func() { l.fingerprint.run(ctx) })
	loops.Go(func() { l.advertise(ctx) })
	loops.Wait()
}

// Attributes returns the node's attributes, by their names in the dialect. It is empty until Consul has
// answered once.
func (l *Link) Attributes() map[string]string { return l.fingerprint.current() }

// Changes receives a value after Attributes may have changed. It has one reader.
func (l *Link) Changes() <-chan struct{} { return l.fingerprint.changes }

// WaitFirst returns when the link has asked Consul for the first time, with or without an answer, or when
// ctx ends.
func (l *Link) WaitFirst(ctx context.Context) {
	select {
	case <-l.fingerprint.first:
	case <-ctx.Done():
	}
}
