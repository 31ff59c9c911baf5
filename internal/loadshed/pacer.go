package loadshed

import (
	"sync"
	"time"
)

// pacer spreads the retry times of rejected requests: each gets another time, so that they return at the rate
// of admission.
type pacer struct {
	soonest time.Duration // the least retry time
	latest  time.Duration // the most

	mu   sync.Mutex
	next time.Time // the retry time of the last rejected request
}

// after returns the retry time of one more request: no sooner than first, and by interval later than the
// previous one.
func (p *pacer) after(first, interval time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if earliest := now.Add(max(first, p.soonest)); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(interval)
	if last := now.Add(p.latest); p.next.After(last) {
		p.next = last
	}
	return p.next.Sub(now).Round(time.Millisecond)
}
