package csihooks

import (
	"sync"
	"time"
)

// TokenRenewals has the times from which the tokens of published volumes are due, on one node.
type TokenRenewals struct {
	mu  sync.Mutex
	due map[tokenUse]*TokenRenewal
}

// tokenUse is one use of a volume.
type tokenUse struct{ alloc, volume string }

// Of returns the renewal of an allocation's use of a volume. One that is not known is due at once: the agent
// has started again since the volume was published, or its plugin asked for no tokens.
func (r *TokenRenewals) Of(alloc, volume string) *TokenRenewal {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := tokenUse{alloc, volume}
	if r.due[k] == nil {
		if r.due == nil {
			r.due = map[tokenUse]*TokenRenewal{}
		}
		r.due[k] = &TokenRenewal{}
	}
	return r.due[k]
}

// Forget drops the renewals of an allocation.
func (r *TokenRenewals) Forget(alloc string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.due {
		if k.alloc == alloc {
			delete(r.due, k)
		}
	}
}

// TokenRenewal renews the tokens of one use. Several tasks may use the volume: the first one that is due
// renews for all.
type TokenRenewal struct {
	running sync.Mutex // held while one task renews
	mu      sync.Mutex
	at      time.Time
}

// Set sets the time from which others are due.
func (r *TokenRenewal) Set(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = at
}

// until returns the time until others are due.
func (r *TokenRenewal) until() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.at)
}

// renewalBusy is the time after which a task looks again while another one renews.
const renewalBusy = time.Second

// Run calls do if the tokens are due, and returns the time until they are due again. do sets it after a
// success. After a failure they are due again after pause.
func (r *TokenRenewal) Run(do func() error, pause func(error) time.Duration) time.Duration {
	if !r.running.TryLock() {
		return renewalBusy
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
