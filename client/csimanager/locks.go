package csimanager

import (
	"context"
	"sync"

	"berth/structs"
)

// locks are locks by name whose waiting ends with a context. A wait that was cut short is an error, never
// a success: whoever holds the lock has not finished.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	slot  chan struct{} // holds an element while somebody has the lock
	users int           // who has it and who waits; the lock is forgotten with the last
}

// acquire takes the lock called name. what says to people which work it guards.
func (l *locks) acquire(ctx context.Context, name, what string) (release func(), err error) {
	k := l.enter(name)
	select {
	case k.slot <- struct{}{}:
		return func() { <-k.slot; l.leave(name, k) }, nil
	default:
	}
	select {
	case k.slot <- struct{}{}:
		return func() { <-k.slot; l.leave(name, k) }, nil
	case <-ctx.Done():
		l.leave(name, k)
		return nil, structs.Errorf(structs.KindUnavailable, "%s was not begun: earlier work on it is still under way: %w", what, ctx.Err())
	}
}

func (l *locks) enter(name string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.held[name]
	if k == nil {
		k = &lock{slot: make(chan struct{}, 1)}
		if l.held == nil {
			l.held = map[string]*lock{}
		}
		l.held[name] = k
	}
	k.users++
	return k
}

func (l *locks) leave(name string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.held, name)
	}
}
