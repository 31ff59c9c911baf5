package loadshed

import (
	"sync"
	"time"
)

// pacer spreads the times after which refused requests come back: each is told another time, so that they
// come back as fast as requests are let in.
type pacer struct {
	soonest time.Duration // the least that a request is told
	latest  time.Duration // the most

	mu   sync.Mutex
	next time.Time // when the request that was refused last comes back
}

// after returns after how long one more request may come back: no sooner than first, and by interval later
// than the one before.
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
