package volumes

import (
	"context"
	"sync"
	"time"

	"berth/internal/keylock"
)

// yieldTime is how long a step waits for side work whose context it has ended.
const yieldTime = 2 * time.Second

// Sequences are the locks of the steps on volumes. Side work on a volume, for which nobody waits, yields to
// the steps. The zero value is ready.
type Sequences struct {
	locks keylock.Map

	mu    sync.Mutex
	steps map[string]int   // by key: steps in work, and waiting steps
	aside map[string]*side // by key: side work
}

// side is side work.
type side struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// Acquire takes the lock of a key for a step, as acquireLock does. It ends side work on
// the key before, and waits at most yieldTime for its end.
func (s *Sequences) Acquire(ctx context.Context, key, work string) (release func(), err error) {
	s.endAside(ctx, key)
	free, err := acquireLock(ctx, &s.locks, key, work)
	if err != nil {
		s.leave(key)
		return nil, err
	}
	return func() {
		free()
		s.leave(key)
	}, nil
}

// endAside counts a step, and ends side work on its key.
func (s *Sequences) endAside(ctx context.Context, key string) {
	s.mu.Lock()
	if s.steps == nil {
		s.steps = map[string]int{}
	}
	s.steps[key]++
	other := s.aside[key]
	s.mu.Unlock()
	if other == nil {
		return
	}

	other.cancel()
	limit := time.NewTimer(yieldTime)
	defer limit.Stop()
	select {
	case <-other.ended:
	case <-limit.C: // the kernel may hold a process
	case <-ctx.Done():
	}
}

func (s *Sequences) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[key]--
	if s.steps[key] == 0 {
		delete(s.steps, key)
	}
}

// Aside does side work on a key. The first step on the key ends its context, and it is to end then. It
// reports whether the work was done without a step: with a step in work it does nothing.
func (s *Sequences) Aside(ctx context.Context, key string, do func(context.Context)) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mine := &side{cancel, make(chan struct{})}
	s.mu.Lock()
	if s.steps[key] > 0 || s.aside[key] != nil {
		s.mu.Unlock()
		return false
	}
	if s.aside == nil {
		s.aside = map[string]*side{}
	}
	s.aside[key] = mine
	s.mu.Unlock()

	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.aside, key)
		close(mine.ended)
	}()
	do(ctx)
	return ctx.Err() == nil
}
