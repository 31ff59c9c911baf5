package dynamicplugins

import "sync"

// Subscription is one reader's queue of events. It grows as needed, so that a slow reader delays no other.
type Subscription struct {
	registry *Registry

	mu     sync.Mutex
	events []Event
	more   chan struct{} // has an element while events may be there
}

// Subscribe returns the serving instances, as events without a Before, followed by every later change.
func (r *Registry) Subscribe() *Subscription {
	s := &Subscription{registry: r, more: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, st := range r.stacks {
		s.pushEvent(Event{Key: k, Now: st.front()})
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

// Take returns the events since the last call, oldest first, and does not wait.
func (s *Subscription) Take() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events
	s.events = nil
	return events
}

func (s *Subscription) pushEvent(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	select {
	case s.more <- struct{}{}:
	default: // a signal is pending already
	}
}
