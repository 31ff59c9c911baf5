package upkeep

import "berth/structs/storage"

// The file system of a server that takes requests and answers none holds each process that asks it, also
// after SIGKILL. So a volume gets no second process while it holds one: the pool is for the other volumes,
// too.

// hold records the process that the file system of a volume holds. nil is none.
func (p *Poller) hold(k storage.UsageKey, held <-chan error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.volumes[k].held = held
}

func (p *Poller) isHeld(k storage.UsageKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumes[k].isHeld()
}

// isHeld reports whether the file system holds a process that has not ended.
func (s *pollState) isHeld() bool {
	select {
	case <-s.held:
		s.held = nil // the channel of none blocks
	default:
	}
	return s.held != nil
}
