package csimanager

import (
	"context"
	"sync"
	"time"

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
	doing string        // the work of who has it
	since int64
}

// acquire takes the lock called name. what says to people which work it guards.
func (l *locks) acquire(ctx context.Context, name, what string) (release func(), err error) {
	k := l.enter(name)
	select {
	case k.slot <- struct{}{}:
		return l.taken(name, what, k), nil
	default:
	}
	select {
	case k.slot <- struct{}{}:
		return l.taken(name, what, k), nil
	case <-ctx.Done():
		doing, since := l.holder(k)
		l.leave(name, k)
		return nil, structs.Errorf(structs.KindUnavailable,
			"%s was not begun: earlier work on it, %s since %s, is still under way: %w",
			what, doing, clock(since), ctx.Err())
	}
}

func (l *locks) taken(name, what string, k *lock) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.doing, k.since = what, time.Now().UnixNano()
	return func() { <-k.slot; l.leave(name, k) }
}

func (l *locks) holder(k *lock) (doing string, since int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return k.doing, k.since
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
