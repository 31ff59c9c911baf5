package endpoints

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/rpc"
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
	full     *rpc.Notice   // what those are told for whom there is no room
	refused  atomic.Int64  // of those, who are not counted yet

	mu      sync.Mutex
	waiting int
	took    time.Duration // about how long an entry takes, lately
	next    time.Time     // when there is room for the next one that is refused
}

func admit(r Raft, c Config) *admission {
	return &admission{Raft: r, turns: make(chan struct{}, c.Writes), queue: c.WriteQueue, patience: c.WritePatience,
		full: rpc.NewNotice(fmt.Sprintf(manyWrites, c.Writes))}
}

// manyWrites is what a refused writer is told.
const manyWrites = "nothing was written: %d writes are under way and others wait"

// room says whether one more entry would be let in or have a place in line, beside those of so many requests
// that are on their way (rpc.Endpoint.Room): who would be refused in the end had better be refused at once.
func (a *admission) room(coming int) (*rpc.Notice, time.Duration) {
	a.mu.Lock()
	room := len(a.turns)+a.waiting+coming < cap(a.turns)+a.queue
	a.mu.Unlock()
	if room {
		return nil, 0
	}
	a.refused.Add(1)
	return a.full, a.again()
}

// mostlyUnchanged marks a write that mostly says what is known already and then goes past the log: it is refused
// only where there is something to be written.
func mostlyUnchanged(e rpc.Endpoint) rpc.Endpoint {
	e.Room = nil
	return e
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
		if n := a.refused.Swap(0); n > 0 { // counted together, each costs more than it took to refuse it
			count("full", n)
		}
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
	count(why, 1)
	return structs.Busy(a.again(), manyWrites, cap(a.turns))
}

// count counts refused writes.
func count(why string, n int64) {
	metrics.IncrCounterWithLabels([]string{"rpc", "refused"}, float32(n), []metrics.Label{{Name: "limit", Value: "writes " + why}})
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
