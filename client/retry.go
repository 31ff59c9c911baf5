package client

import (
	"context"
	"sync"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// serverRetry paces attempts to reach the servers. leaseRetry paces those on which the lease depends.
var (
	serverRetry = backoff.Backoff{
		Min: 250 * time.Millisecond,
		Max: 10 * time.Second,
	}
	leaseRetry = backoff.Backoff{
		Min: 100 * time.Millisecond,
		Max: 2 * time.Second,
	}
)

// serversBack tells all loops at once that the servers can be reached again. Its zero value is ready for use.
type serversBack struct {
	mu   sync.Mutex
	back chan struct{} // closed and replaced at each announcement
}

// next returns a channel that closes at the next announcement.
func (s *serversBack) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.back == nil {
		s.back = make(chan struct{})
	}
	return s.back
}

func (s *serversBack) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.back != nil {
		close(s.back)
	}
	s.back = nil
}

// retry calls attempt until it succeeds. It logs each failure as msg and pauses after it. The pause ends when
// a heartbeat reaches the servers again: the cut that made it long is over. A pause that the servers have
// asked for does not end early. It reports false if ctx ended first.
func (c *Client) retry(ctx context.Context, msg string, attempt func(context.Context) error) bool {
	pause := serverRetry
	for {
		back := c.serversBack.next() // before the attempt: they may come back during it
		err := attempt(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if structs.RetryAfter(err) > 0 {
			back = nil
		}
		wait := pause.After(err)
		c.logger.Warn(msg, "retry_in", wait, "error", err)
		select {
		case <-time.After(wait):
		case <-back:
			pause.Reset()
		case <-ctx.Done():
			return false
		}
	}
}
