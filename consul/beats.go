package consul

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"sync"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"

	"berth/internal/backoff"
	"berth/structs"
)

// maxBeats bounds the results that are sent to Consul at once.
const maxBeats = 8

// beat is the last result of a check that berth runs itself.
type beat struct {
	status string // as Consul has it, "" before the first result
	output string
	unsent bool
}

// beats sends results to Consul: of each check only the newest one.
type beats struct {
	mu      sync.Mutex
	last    map[string]beat // by the IDs of all wanted checks
	pending chan struct{}   // has an item if a result is unsent
}

func (b *beats) init() {
	b.last = map[string]beat{}
	b.pending = make(chan struct{}, 1)
}

// replace lets the checks of the wanted services have results, and no others. Checks that stay keep theirs.
func (b *beats) replace(old, wanted []*Service) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := map[string]beat{}
	for _, s := range wanted {
		for _, c := range s.Checks {
			kept[c.CheckID] = b.last[c.CheckID]
		}
	}

	// A check in both lists keeps its result: the copy comes after the removal.
	for _, s := range old {
		for _, c := range s.Checks {
			delete(b.last, c.CheckID)
		}
	}
	maps.Copy(b.last, kept)
}

// Beat sends the result of a check that berth runs itself: a state of structs with its output. It does not
// wait for Consul. The result of a check that nobody wants is dropped.
func (s *Syncer) Beat(checkID, status, output string) {
	b := &s.beats
	b.mu.Lock()

	// A script may end after its allocation has removed the check.
	_, wanted := b.last[checkID]
	if wanted {
		b.last[checkID] = beat{consulStatus(status), output, true}
	}
	b.mu.Unlock()
	if wanted {
		wake(b.pending)
	}
}

// withStatus returns the service with the last results of its checks, so that none changes by a registration.
func (b *beats) withStatus(s *Service) *Service {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := *s
	out.Checks = nil
	for _, c := range s.Checks {
		check := *c

		// A registration sets the status. Without this a passing check would be critical until its next
		// result.
		check.Status = cmp.Or(b.last[c.CheckID].status, c.Status)
		out.Checks = append(out.Checks, &check)
	}
	return &out
}

// unsent returns the results to send, by the IDs of the checks.
func (b *beats) unsent() map[string]beat {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]beat{}
	for id, last := range b.last {
		if last.unsent {
			out[id] = last
		}
	}
	return out
}

// sent notes that Consul has a result.
func (b *beats) sent(checkID string, now beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A newer result, which came meanwhile, is still unsent.
	if b.last[checkID] == now {
		now.unsent = false
		b.last[checkID] = now
	}
}

// runBeats sends results until ctx ends.
func (s *Syncer) runBeats(ctx context.Context) {
	pause := backoff.Backoff{Min: shortestRetry, Max: longestRetry}
	for {
		select {
		case <-s.beats.pending:
		case <-ctx.Done():
			return
		}
		if err := s.sendBeats(ctx); err == nil {
			pause.Reset()
			continue
		}

		// The results are still unsent.
		wake(s.beats.pending)
		if !pause.Wait(ctx) {
			return
		}
	}
}

// sendBeats sends all results. Consul may lack a check that is not there yet: the sync registers it with
// its result.
func (s *Syncer) sendBeats(ctx context.Context) error {
	var group errgroup.Group

	// The transport keeps as many idle connections, so no result needs a new one.
	group.SetLimit(maxBeats)
	for id, b := range s.beats.unsent() {
		group.Go(func() error {
			query := (&api.QueryOptions{}).WithContext(ctx)
			err := s.agent.UpdateTTLOpts(id, b.output, b.status, query)
			switch {
			case err == nil:
				s.beats.sent(id, b)
			// The check is not registered yet, or was removed by others.
			case statusOf(err) == http.StatusNotFound:
				s.wake()
			}
			return err
		})
	}
	return group.Wait()
}

// consulStatus returns Consul's name of a state of a check.
func consulStatus(status string) string {
	switch status {
	case structs.CheckPassing:
		return api.HealthPassing
	case structs.CheckWarning:
		return api.HealthWarning
	}
	return api.HealthCritical
}
