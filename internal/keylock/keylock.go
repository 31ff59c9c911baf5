// Package keylock has locks by key, whose waits end with a context. It is apart: procedures, nodes and the
// driver hostpath lock by key.
//
// Its rules:
//
//   - Callers with different keys do not wait for each other.
//   - A wait ends with its context. A caller whose wait ended has no lock, and the error says so.
//   - A key takes memory only while a caller holds it or waits for it.
//   - A caller that names several keys takes them in sorted order. Two callers of Lock therefore never wait
//     for each other.
//
// A holder must not call Lock again on the same Map, unless the callers agree on an order of their own.
package keylock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrFull says that MaxUsers callers use the key already.
var ErrFull = errors.New("too many callers wait")

// Map is a set of locks by key. Its exported fields are set before its first use. The zero value is ready.
type Map struct {
	MaxUsers int // callers that hold one key or wait for it; 0 is no bound

	mu      sync.Mutex
	entries map[string]*entry
}

type entry struct {
	held   chan struct{} // has one element while the key is held
	users  int           // the holder and the waiters; the last one deletes the entry
	holder string        // the latest
	since  time.Time
}

// Error says why a caller did not get a lock. It unwraps to ErrFull or to the error of the context.
type Error struct {
	Key    string
	Holder string    // the latest holder of the key, as it called itself
	Since  time.Time // when it got the key
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("waiting for %q: %v", e.Key, e.Err)
}

func (e *Error) Unwrap() error {
	return e.Err
}

// Lock waits until the caller holds all keys. holder describes the caller in the errors of others. A key that
// is free is taken even if ctx has ended. Every error is an *Error; the caller then holds no key.
func (m *Map) Lock(ctx context.Context, holder string, keys ...string) (unlock func(), err error) {
	keys = slices.Sorted(slices.Values(keys))
	var held []func()
	unlock = func() {
		for _, free := range slices.Backward(held) {
			free()
		}
	}

	for _, key := range slices.Compact(keys) {
		free, err := m.lockOne(ctx, holder, key)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, free)
	}

	return unlock, nil
}

func (m *Map) lockOne(ctx context.Context, holder, key string) (unlock func(), err error) {
	e := m.addUser(key)
	if e == nil {
		return nil, &Error{Key: key, Err: ErrFull}
	}

	select {
	case e.held <- struct{}{}:
	default:
		select {
		case e.held <- struct{}{}:
		case <-ctx.Done():
			return nil, m.abandonWait(key, e, ctx.Err())
		}
	}

	return m.markHeld(key, e, holder), nil
}

// addUser counts a user of the key. It returns nil if there are MaxUsers already.
func (m *Map) addUser(key string) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil {
		e = &entry{held: make(chan struct{}, 1)}
		if m.entries == nil {
			m.entries = map[string]*entry{}
		}
		m.entries[key] = e
	}

	if m.MaxUsers > 0 && e.users >= m.MaxUsers {
		return nil
	}

	e.users++
	return e
}

// markHeld records the holder of a key that the caller has got.
func (m *Map) markHeld(key string, e *entry, holder string) (unlock func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.holder = holder
	e.since = time.Now()
	return func() {
		<-e.held
		m.mu.Lock()
		defer m.mu.Unlock()
		m.removeUser(key, e)
	}
}

func (m *Map) abandonWait(key string, e *entry, cause error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeUser(key, e)
	return &Error{
		Key:    key,
		Holder: e.holder,
		Since:  e.since,
		Err:    cause,
	}
}

func (m *Map) removeUser(key string, e *entry) {
	e.users--
	if e.users == 0 {
		delete(m.entries, key)
	}
}
