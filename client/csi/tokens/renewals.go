package tokens

import (
	"sync"
	"time"
)

// Renewals has the times from which the tokens of published volumes are due, on one node.
type Renewals struct {
	mu  sync.Mutex
	due map[key]*Renewal
}

// key is one use of a volume.
type key struct{ alloc, volume string }

// Of returns the renewal of an allocation's use of a volume. One that is not known is due at once: the agent
// has started again since the volume was published, or its plugin asked for no tokens.
func (r *Renewals) Of(alloc, volume string) *Renewal {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{alloc, volume}
	if r.due[k] == nil {
		if r.due == nil {
			r.due = map[key]*Renewal{}
		}
		r.due[k] = &Renewal{}
	}
	return r.due[k]
}

// Forget drops the renewals of an allocation.
func (r *Renewals) Forget(alloc string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.due {
		if k.alloc == alloc {
			delete(r.due, k)
		}
	}
}

// Renewal is that of one use. Several tasks may use the volume: the first one that is due renews for all.
type Renewal struct {
	running sync.Mutex // held while one task renews
	mu      sync.Mutex
	at      time.Time
}

// Set sets the time from which others are due.
func (r *Renewal) Set(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = at
}

// until returns the time until others are due.
func (r *Renewal) until() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.at)
}

// busy is the time after which a task looks again while another one renews.
const busy = time.Second

// Run calls do if the tokens are due, and returns the time until they are due again. do sets it after a
// success. After a failure they are due again after pause.
func (r *Renewal) Run(do func() error, pause func(error) time.Duration) time.Duration {
	if !r.running.TryLock() {
		return busy
	}
	defer r.running.Unlock()
	if wait := r.until(); wait > 0 {
		return wait
	}

	err := do()
	if err != nil {
		r.Set(time.Now().Add(pause(err)))
	}
	return r.until()
}
