package registry

import "sync"

// Subscription is one reader's queue of changes. It grows as needed, so that a slow reader delays no other.
type Subscription struct {
	registry *Registry

	mu   sync.Mutex
	keys []Key
	more chan struct{} // has an element while keys may be there
}

// Subscribe returns the keys of the serving instances, followed by the key of every later change.
func (r *Registry) Subscribe() *Subscription {
	s := &Subscription{registry: r, more: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.stacks {
		s.push(k)
	}
	r.subs[s] = struct{}{}
	return s
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	delete(s.registry.subs, s)
}

// More receives when Take may have something.
func (s *Subscription) More() <-chan struct{} { return s.more }

// Take returns the keys under which another instance serves, or none, since the last call: oldest first, once
// per change. It does not wait.
func (s *Subscription) Take() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.keys
	s.keys = nil
	return keys
}

func (s *Subscription) push(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, k)
	select {
	case s.more <- struct{}{}:
	default: // a signal is pending already
	}
}
