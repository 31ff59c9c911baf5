package consul

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/structs"
)

// The syncer compares what the owners want with what Consul has, and sends the difference. It keeps no record
// of what it has sent: after a fault, a restart of Consul or of the agent, the next comparison is enough.

// The pace of the syncer.
const (
	syncInterval  = 30 * time.Second
	shortestRetry = time.Second
	longestRetry  = 30 * time.Second
	// probation is the time after the start in which services of this node that nobody wants stay: their
	// allocations may not have been restored yet.
	probation = time.Minute
	// lastSync bounds the sync at the end of the agent.
	lastSync = 5 * time.Second
)

// maxGone bounds the IDs that the syncer keeps for their removal, for example while Consul is away. After the
// probation it finds each other one by comparing all services of this node.
const maxGone = 4096

// AgentAPI is the part of the API of Consul's agent that the syncer calls. *api.Agent implements it.
type AgentAPI interface {
	ServicesWithFilterOpts(filter string, q *api.QueryOptions) (map[string]*api.AgentService, error)
	ChecksWithFilterOpts(filter string, q *api.QueryOptions) (map[string]*api.AgentCheck, error)
	ServiceRegisterOpts(s *api.AgentServiceRegistration, opts api.ServiceRegisterOpts) error
	ServiceDeregisterOpts(serviceID string, q *api.QueryOptions) error
	CheckDeregisterOpts(checkID string, q *api.QueryOptions) error
	UpdateTTLOpts(checkID, output, status string, q *api.QueryOptions) error
}

// The filters of what berth has registered.
const (
	ownServices = `ID matches "^` + idPrefix + `"`
	ownChecks   = `CheckID matches "^` + idPrefix + `"`
)

// Syncer keeps the services of one agent in Consul as their owners want them. It never touches services that
// it has not registered, nor services of other nodes that use the same Consul. Its methods may be called at
// any time, and they do not wait for Consul.
type Syncer struct {
	logger hclog.Logger
	agent  AgentAPI
	node   string // metaAgent of its services

	mu     sync.Mutex
	wanted map[string][]*Service // by owner
	// gone are IDs that are no longer wanted and that Consul may still have, at most maxGone of them.
	gone    map[string]bool
	removed map[string]bool         // owners whose services go when the agent ends
	pending chan struct{}           // has an item if wanted or gone have changed, or Consul lacks something
	tokens  map[string]serviceToken // of services with tokens of their own, by their IDs

	beats  beats
	status statusCache
}

// newSyncer makes a syncer for the services of a node.
func newSyncer(agent AgentAPI, node string, logger hclog.Logger) *Syncer {
	s := &Syncer{
		logger:  logger,
		agent:   agent,
		node:    node,
		wanted:  map[string][]*Service{},
		gone:    map[string]bool{},
		removed: map[string]bool{},
		pending: make(chan struct{}, 1),
		tokens:  map[string]serviceToken{},
	}
	s.beats.init()
	s.status.init()
	return s
}

// Put replaces the services of an owner. No services remove the former ones.
func (s *Syncer) Put(owner string, services []*Service) {
	s.put(owner, services)
	s.wake()
}

// PutUntilEnd is Put for services that the syncer removes when the agent ends.
func (s *Syncer) PutUntilEnd(owner string, services []*Service) {
	s.mu.Lock()
	s.removed[owner] = true
	s.mu.Unlock()
	s.Put(owner, services)
}

// put replaces the services without waking the syncer.
func (s *Syncer) put(owner string, services []*Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// An old service is gone unless a new one has its ID: see below.
	for _, old := range s.wanted[owner] {
		for _, id := range idsOf(old) {
			s.gone[id] = true
		}
	}
	s.beats.replace(s.wanted[owner], services)
	delete(s.wanted, owner)
	for _, service := range services {
		for _, id := range idsOf(service) {
			delete(s.gone, id)
		}
		s.wanted[owner] = append(s.wanted[owner], ownService(service, s.node))
	}
	s.boundGone()
}

// boundGone forgets some IDs above the bound. The caller holds s.mu.
func (s *Syncer) boundGone() {
	for id := range s.gone {
		if len(s.gone) <= maxGone {
			return
		}

		// What is forgotten here and is still in Consul is found by its meta after the probation.
		delete(s.gone, id)
	}
}

// wake makes the syncer compare its services with Consul's now.
func (s *Syncer) wake() { wake(s.pending) }

// wake puts an item into a channel with space for one.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run syncs after each change and at syncInterval until ctx ends. Then it syncs once more, without the
// services of PutUntilEnd.
func (s *Syncer) run(ctx context.Context) {
	begin := time.Now()
	retry := backoff.Backoff{Min: shortestRetry, Max: longestRetry}
	failures := 0
	for ctx.Err() == nil {
		err := s.sync(ctx, time.Since(begin) >= probation)
		if err != nil && ctx.Err() == nil {
			failures++

			// A machine without Consul has nothing to sync, and no warnings.
			if worthLogging(failures) && !s.idle() {
				s.logger.Warn("failed to sync services with Consul, retrying",
					"failures", failures, "error", err)
			}

			// A change meanwhile waits for the end of the pause: Consul could not have it either.
			backoff.Sleep(ctx, retry.Next())
			continue
		}

		if failures > 0 && !s.idle() {
			s.logger.Info("services are in sync with Consul again", "failures", failures)
		}

		failures = 0
		retry.Reset()
		s.await(ctx)
	}

	s.leave(time.Since(begin) >= probation)
}

// idle reports whether nobody needs Consul.
func (s *Syncer) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wanted) == 0 && len(s.gone) == 0
}

// worthLogging reports whether to log the failure with a number in a row: 1, 2, 4, 8 and so on.
func worthLogging(n int) bool { return n&(n-1) == 0 }

// await waits for a change or for the time of the next sync.
func (s *Syncer) await(ctx context.Context) {
	// Others may have changed or removed services, of which nothing tells the syncer.
	t := time.NewTimer(syncInterval)
	defer t.Stop()
	select {
	case <-s.pending:
	case <-t.C:
	case <-ctx.Done():
	}
}

// leave syncs for the last time. If the agent is settled, it finds the forgotten IDs, too.
func (s *Syncer) leave(settled bool) {
	s.mu.Lock()
	owners := slices.Collect(maps.Keys(s.removed))
	s.mu.Unlock()
	for _, owner := range owners {
		s.put(owner, nil)
	}
	if s.idle() {
		return
	}

	// The context of the agent has ended; the last sync has a time of its own.
	ctx, cancel := context.WithTimeout(context.Background(), lastSync)
	defer cancel()
	if err := s.sync(ctx, settled); err != nil {
		s.logger.Warn("failed to sync services with Consul at the end; some may stay there", "error", err)
	}
}

// goal is what Consul is to have and not to have.
type goal struct {
	services []*Service // in the order of their IDs
	ids      map[string]bool
	gone     []string
}

// goal copies what the sync works with, because the lock is not held while Consul answers.
func (s *Syncer) goal() goal {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := goal{ids: map[string]bool{}}
	for _, list := range s.wanted {
		g.services = append(g.services, list...)
	}
	slices.SortFunc(g.services, func(a, b *Service) int { return strings.Compare(a.ID, b.ID) })
	for _, service := range g.services {
		for _, id := range idsOf(service) {
			g.ids[id] = true
		}
	}
	g.gone = slices.Sorted(maps.Keys(s.gone))
	return g
}

// forget notes that Consul does not have a service any more.
func (s *Syncer) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.gone, id)
}

// sync makes Consul have the wanted services, and no others of this node. A service of this node that
// nobody has removed stays if settled is false. A fault of one service does not keep it from the others,
// unless Consul does not answer.
func (s *Syncer) sync(ctx context.Context, settled bool) error {
	g := s.goal()
	query := (&api.QueryOptions{}).WithContext(ctx)

	// Two reads give a whole picture, so a sync without differences costs nothing more.
	services, err := s.agent.ServicesWithFilterOpts(ownServices, query)
	if err != nil {
		return plain("reading the services", err)
	}

	checks, err := s.agent.ChecksWithFilterOpts(ownChecks, query)
	if err != nil {
		return plain("reading the checks", err)
	}

	// A null in the place of a service or a check counts as none.
	maps.DeleteFunc(services, func(_ string, s *api.AgentService) bool { return s == nil })
	maps.DeleteFunc(checks, func(_ string, c *api.AgentCheck) bool { return c == nil })
	s.status.store(checks)
	var faults []error
	for _, id := range s.outdated(g, services, settled) {
		err := s.deregister(ctx, id)
		faults = append(faults, err)
		if unanswered(err) {
			return errors.Join(faults...)
		}
	}

	checkIDs := checksByService(checks)
	for _, service := range g.services {
		var ids []string
		for _, id := range idsOf(service) {
			ids = append(ids, checkIDs[id]...)
		}

		err := s.syncService(ctx, service, services, ids)
		faults = append(faults, err)
		if unanswered(err) {
			return errors.Join(faults...)
		}
	}

	return errors.Join(faults...)
}

// outdated returns the services to remove.
func (s *Syncer) outdated(g goal, services map[string]*api.AgentService, settled bool) (ids []string) {
	for _, id := range g.gone {
		if services[id] == nil {
			s.forget(id)
		} else {
			ids = append(ids, id)
		}
	}

	// Right after a start the allocations are still being restored, and have not put their services.
	if !settled {
		return ids
	}

	for _, id := range slices.Sorted(maps.Keys(services)) {
		// The Consul may have services of other agents.
		ours := services[id].Meta[metaAgent] == s.node
		if ours && !g.ids[id] && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}

	return ids
}

// deregister removes a service. One that Consul does not have is removed, too.
func (s *Syncer) deregister(ctx context.Context, id string) error {
	err := s.agent.ServiceDeregisterOpts(id, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil && statusOf(err) != http.StatusNotFound {
		return plain("removing service "+id, err)
	}
	s.logger.Debug("service removed from Consul", "service_id", id)
	s.forget(id)
	return nil
}

// checksByService returns the IDs of the checks that Consul has, in order, by the IDs of their services.
func checksByService(checks map[string]*api.AgentCheck) map[string][]string {
	ids := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(checks)) {
		service := checks[id].ServiceID
		ids[service] = append(ids[service], id)
	}
	return ids
}

// syncService registers a service if Consul has it otherwise, and removes checks that it had. checkIDs are
// the IDs of the checks that Consul has.
func (s *Syncer) syncService(
	ctx context.Context, service *Service, services map[string]*api.AgentService, checkIDs []string,
) error {
	token, own := s.tokenOfService(service.ID)
	if own && token.secret == "" {
		// It is registered once it has its token: see ExpectToken.
		return nil
	}

	// The tags are kept before the comparison, or they would be a difference that never ends.
	service = keepTags(service, services)
	if differs(service, services) || lacksCheck(service, checkIDs) || token.stale {
		ctx := ctx
		if own {
			ctx = WithToken(ctx, token.secret)
		}

		opts := api.ServiceRegisterOpts{}.WithContext(ctx)
		err := s.agent.ServiceRegisterOpts(s.beats.withStatus(service), opts)
		if err != nil {
			return plain("registering service "+service.ID, err)
		}

		s.registered(service.ID, token)
		s.logger.Debug("service registered in Consul", "service_id", service.ID)
	}

	// A registration leaves the former checks of a service in Consul.
	for _, id := range checkIDs {
		if hasCheck(service, id) {
			continue
		}

		err := s.agent.CheckDeregisterOpts(id, (&api.QueryOptions{}).WithContext(ctx))
		if err != nil && statusOf(err) != http.StatusNotFound {
			return plain("removing a check of service "+service.ID, err)
		}
	}

	return nil
}

func lacksCheck(s *Service, checkIDs []string) bool {
	lacks := func(c *api.AgentServiceCheck) bool { return !slices.Contains(checkIDs, c.CheckID) }
	return slices.ContainsFunc(checksOf(s), lacks)
}

func hasCheck(s *Service, id string) bool {
	return slices.ContainsFunc(checksOf(s), func(c *api.AgentServiceCheck) bool { return c.CheckID == id })
}

// checksOf returns the checks of a service and of its sidecar. Consul makes checks of its own for a sidecar
// without any.
func checksOf(s *Service) api.AgentServiceChecks {
	if sidecar := sidecarOf(s); sidecar != nil {
		return slices.Concat(s.Checks, sidecar.Checks)
	}
	return s.Checks
}

// statusOf returns the HTTP status of a rejection by Consul, 0 if the error is none.
func statusOf(err error) int {
	var status api.StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	return 0
}

// unanswered reports whether Consul has not answered, so that further calls would not get an answer either.
func unanswered(err error) bool { return err != nil && statusOf(err) == 0 }

// plain adds the place to an error of Consul.
func plain(doing string, err error) error {
	if statusOf(err) == http.StatusForbidden {
		return structs.Errorf(structs.KindDenied, "%s: Consul denies it to the agent's token: %w", doing, err)
	}
	return structs.Unavailablef("%s: %w", doing, err)
}
