package control

import (
	"context"
	"sync"
)

// lanes let a bounded number of callers at a time through, by name. The zero value is ready.
type lanes struct {
	mu    sync.Mutex
	known map[string]*lane
}

type lane struct {
	slots chan struct{}
	users int // within and waiting: with the last the lane is forgotten
}

// enter waits for a place in the lane of a width, which is the same for all of a name.
func (l *lanes) enter(ctx context.Context, name string, width int) (leave func(), err error) {
	l.mu.Lock()
	if l.known == nil {
		l.known = map[string]*lane{}
	}
	in := l.known[name]
	if in == nil {
		in = &lane{slots: make(chan struct{}, width)}
		l.known[name] = in
	}
	in.users++
	l.mu.Unlock()
	select {
	case in.slots <- struct{}{}:
		return func() { <-in.slots; l.forget(name, in) }, nil
	case <-ctx.Done():
		l.forget(name, in)
		return nil, ctx.Err()
	}
}

func (l *lanes) forget(name string, in *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.users--; in.users == 0 {
		delete(l.known, name)
	}
}
