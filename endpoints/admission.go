package endpoints

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/structs"
)

// admission is a Raft into which only so many entries are let at once. Some more wait in line, not for
// long; whoever comes beyond that is told at once when to come again, and nothing was written. So what is
// offered beyond what can be sustained costs little, and the writes that are let in take no longer for it.
type admission struct {
	Raft
	turns    chan struct{} // one for each entry under way
	queue    int           // how many may wait
	patience time.Duration // and for how long

	mu      sync.Mutex
	waiting int
	took    time.Duration // about how long an entry takes, lately
	next    time.Time     // when there is room for the next one that is refused
}

func admit(r Raft, c Config) *admission {
	return &admission{Raft: r, turns: make(chan struct{}, c.Writes), queue: c.WriteQueue, patience: c.WritePatience}
}

// Propose proposes an entry when it is its turn.
func (a *admission) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	if err := a.enter(ctx); err != nil {
		return 0, nil, err
	}
	start := time.Now()
	defer func() {
		<-a.turns
		a.learn(time.Since(start))
	}()
	return a.Raft.Propose(ctx, entry)
}

func (a *admission) enter(ctx context.Context) error {
	select {
	case a.turns <- struct{}{}:
		return nil
	default:
	}
	if !a.line(1) {
		return a.refuse("full")
	}
	defer a.line(-1)
	timer := time.NewTimer(a.patience)
	defer timer.Stop()
	select {
	case a.turns <- struct{}{}:
		return nil
	case <-timer.C:
		return a.refuse("patience")
	case <-ctx.Done():
		return structs.Errorf(structs.KindUnavailable, "nothing was written: waiting for other writes: %w", ctx.Err())
	}
}

// line changes how many wait; false when there is no place for more.
func (a *admission) line(by int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting+by > a.queue {
		return false
	}
	a.waiting += by
	return true
}

func (a *admission) learn(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took += (took - a.took) / 8
}

// The bounds of what a refused writer is told.
const (
	soonest = 50 * time.Millisecond
	latest  = 5 * time.Second
)

func (a *admission) refuse(why string) error {
	metrics.IncrCounterWithLabels([]string{"rpc", "refused"}, 1, []metrics.Label{{Name: "limit", Value: "writes " + why}})
	return structs.Busy(a.again(), "nothing was written: %d writes are under way and others wait", cap(a.turns))
}

// again is about when there will be room for one more: after those who are here, and after those who were
// refused before and told so. Each is told another time, so that they come back as fast as entries are
// made, however many they are.
func (a *admission) again() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	rounds := 1 + a.waiting/cap(a.turns)
	if first := now.Add(time.Duration(rounds) * a.took); a.next.Before(first) {
		a.next = first
	}
	a.next = a.next.Add(a.took / time.Duration(cap(a.turns)))
	if last := now.Add(latest); a.next.After(last) {
		a.next = last
	}
	return max(a.next.Sub(now).Round(time.Millisecond), soonest)
}
