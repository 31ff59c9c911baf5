package loadshed

import (
	"sync"
	"time"
)

// pacer spreads the retry times of rejected requests: each gets another time, so that they return at the rate
// of admission.
type pacer struct {
	soonest time.Duration // the least retry time
	latest  time.Duration // the largest

	mu   sync.Mutex
	next time.Time // the retry time of the last rejected request
}

// retryAfter returns the retry time of one more request: no sooner than first, and by interval later than the
// previous one.
func (p *pacer) retryAfter(first, interval time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	earliest := now.Add(max(first, p.soonest))
	if p.next.Before(earliest) {
		p.next = earliest
	}

	p.next = p.next.Add(interval)
	last := now.Add(p.latest)
	if p.next.After(last) {
		p.next = last
	}

	return p.next.Sub(now).Round(time.Millisecond)
}
