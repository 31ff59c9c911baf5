package consul

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/internal/backoff"
	"berth/structs"
)

// pollInterval is the pace at which the states of checks are read while somebody follows them.
const pollInterval = time.Second

// CheckState is the state of a check as Consul last said.
type CheckState struct {
	Status string // structs.CheckPassing and so on
	Output string
	Read   uint64 // grows with each answer of Consul
}

// statusCache has the states of all checks of berth.
type statusCache struct {
	mu        sync.Mutex
	read      uint64
	checks    map[string]*api.AgentCheck
	followers int
	followed  chan struct{} // has an item if there may be the first follower
}

func (c *statusCache) init() { c.followed = make(chan struct{}, 1) }

// store takes over an answer. read tells a reader whether a state is from after an event that it knows.
func (c *statusCache) store(checks map[string]*api.AgentCheck) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks = checks
	c.read++
}

// Check returns the state of a check in the last answer of Consul. It is false if Consul does not have the
// check.
func (s *Syncer) Check(checkID string) (CheckState, bool) {
	c := &s.status
	c.mu.Lock()
	defer c.mu.Unlock()
	check := c.checks[checkID]
	if check == nil {
		return CheckState{}, false
	}
	return CheckState{
		Status: ownStatus(check),
		Output: check.Output,
		Read:   c.read,
	}, true
}

// Follow keeps the answers of Check up to date until release.
func (s *Syncer) Follow() (release func()) {
	c := &s.status
	c.mu.Lock()
	c.followers++
	c.mu.Unlock()
	wake(c.followed)
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()

		// The loop finds out at its next round.
		c.followers--
	})
}

func (c *statusCache) hasFollowers() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.followers > 0
}

// runStatus reads the states of the checks while somebody follows them, until ctx ends.
func (s *Syncer) runStatus(ctx context.Context) {
	for {
		select {
		case <-s.status.followed:
		case <-ctx.Done():
			return
		}

		// With followers the states are read each second. Otherwise the sync's have to do.
		for s.status.hasFollowers() {
			query := (&api.QueryOptions{}).WithContext(ctx)

			// Consul filters, so that the answer does not grow with the services of others.
			checks, err := s.agent.ChecksWithFilterOpts(ownChecks, query)
			if err == nil { // the sync reports errors
				s.status.store(checks)
			}

			if !backoff.Sleep(ctx, pollInterval) {
				return
			}
		}
	}
}

// ownStatus returns the state of a check. Consul has no state for one that has not run yet: it is critical
// without an output.
func ownStatus(c *api.AgentCheck) string {
	switch {
	case c.Status == api.HealthPassing:
		return structs.CheckPassing
	case c.Status == api.HealthWarning:
		return structs.CheckWarning
	case c.Output == "":
		return structs.CheckPending
	}
	return structs.CheckFailing
}
