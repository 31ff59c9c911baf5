package consulacl

import (
	"context"
	"sync"
	"time"

	"berth/internal/backoff"
)

// pace is a bound on the calls per second.
type pace struct {
	gap time.Duration // between two calls

	mu   sync.Mutex
	next time.Time
}

// wait returns when the next call may begin. The error is ctx's.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()

	// Time without calls does not add up: a pause must not be followed by a burst.
	if p.next.Before(now) {
		p.next = now
	}
	delay := p.next.Sub(now)

	// The turn is taken before the sleep, so that those who wait have different times.
	p.next = p.next.Add(p.gap)
	p.mu.Unlock()
	if delay > 0 {
		backoff.Sleep(ctx, delay)
	}
	return ctx.Err()
}
