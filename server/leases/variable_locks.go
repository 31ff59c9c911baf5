package leases

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

const (
	// longestLockPause is the most time between two looks at the ends: Go's timers stop while the machine is
	// suspended.
	longestLockPause = time.Second
	// keptLockChanges is the number of changed rows that are kept between two looks.
	keptLockChanges = 4096
)

// LockConfig has the parts of a server.
type LockConfig struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Logger   hclog.Logger
	Clock    boottime.Clock // nil: CLOCK_BOOTTIME
}

// VariableLocks has the ends of the locks of variables in the memory of the leader. A renewal changes this
// memory alone. The end of a lock that was not renewed is an entry of the log, and so is the end of its
// delay. A server that does not lead has none.
//
// A holder counts the TTL from before its request, and the leader from after it. A new leader counts every
// TTL and every delay anew, from its beginning. So the leader never ends a lock that its holder still counts.
type VariableLocks struct {
	LockConfig

	mu    sync.Mutex
	leads bool
	ends  map[lockedName]lockEnding
}

// lockedName names a variable.
type lockedName struct{ namespace, path string }

// lockEnding is a lock, or its delay, with its end.
type lockEnding struct {
	id    string
	delay bool
	at    boottime.Instant
}

// NewVariableLocks makes the locks of a server.
func NewVariableLocks(c LockConfig) *VariableLocks {
	if c.Clock == nil {
		c.Clock = boottime.Now
	}
	return &VariableLocks{LockConfig: c, ends: map[lockedName]lockEnding{}}
}

// Renew implements vars.VariableLocks. The caller has read the row of the variable, whose lock somebody has.
func (l *VariableLocks) Renew(v *access.Variable) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leads {
		return structs.NotServedf("this server renews no lock: it does not lead, or has just begun to")
	}

	n := lockedName{v.Namespace, v.Path}
	now := l.Clock()
	known, ok := l.ends[n]

	// The entry of its end may be under way already, so it is too late for a renewal.
	if ok && known.id == v.Lock.ID && (known.delay || known.at <= now) {
		return structs.Conflictf("the lock of the variable %q has just ended", v.Path)
	}

	l.ends[n] = lockEnding{id: v.Lock.ID, at: now.Add(v.Lock.TTL)}
	return nil
}

// Run ends locks and delays while this server leads, until ctx ends.
func (l *VariableLocks) Run(ctx context.Context) {
	feed := l.Store.Subscribe(keptLockChanges, schema.LockedVariableRows) // before the first read
	defer feed.Close()
	l.begin()
	defer l.end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		l.expire(ctx)
		timer.Reset(l.pause())
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-feed.Ready():
			l.follow(feed.TakeChanges())
		}
	}
}

// begin counts all locks and delays from now.
func (l *VariableLocks) begin() {
	tx := l.Store.Read()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = true
	for v := range state.LockedVariables(tx) {
		l.note(v)
	}
}

// end forgets all ends. The next leader counts them anew.
func (l *VariableLocks) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = false
	clear(l.ends)
}

// note counts the lock of a variable, or its delay, unless it is counted already.
func (l *VariableLocks) note(v *access.Variable) {
	n := lockedName{v.Namespace, v.Path}
	known, ok := l.ends[n]
	if ok && known.id == v.Lock.ID && known.delay == v.LockExpired {
		return
	}

	length := v.Lock.TTL
	if v.LockExpired {
		length = v.Lock.LockDelay
	}

	l.ends[n] = lockEnding{
		id:    v.Lock.ID,
		delay: v.LockExpired,
		at:    l.Clock().Add(length),
	}
}

// follow reads variables whose locks have changed.
func (l *VariableLocks) follow(changes []state.Change, all bool) {
	var changed []lockedName
	for _, c := range changes {
		changed = append(changed, lockedName{c.Key[0], c.Key[1]})
	}
	if all {
		l.forgetEnded()
		l.begin()
	}
	l.read(changed)
}

// read reads some variables again.
func (l *VariableLocks) read(some []lockedName) {
	tx := l.Store.Read()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range some {
		v := state.Variable(tx, n.namespace, n.path)
		if v == nil || v.Lock == nil {
			delete(l.ends, n)
			continue
		}

		l.note(v)
	}
}

// forgetEnded reads all variables again whose locks are counted.
func (l *VariableLocks) forgetEnded() {
	l.mu.Lock()
	var counted []lockedName
	for n := range l.ends {
		counted = append(counted, n)
	}
	l.mu.Unlock()
	l.read(counted)
}

// pause returns the time until the next look at the ends.
func (l *VariableLocks) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Clock()
	pause := longestLockPause
	for _, e := range l.ends {
		if left := e.at.Sub(now); left > 0 {
			pause = min(pause, left)
		}
	}

	return pause
}

// due returns the locks and delays that have ended.
func (l *VariableLocks) due() map[lockedName]lockEnding {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := map[lockedName]lockEnding{}
	now := l.Clock()
	for n, e := range l.ends {
		if e.at <= now {
			ended[n] = e
		}
	}

	return ended
}

// expire records the ends of locks and delays. Nobody renews a lock any more whose end has come, so an entry
// that fails is tried again at the next look.
func (l *VariableLocks) expire(ctx context.Context) {
	var recorded []lockedName
	for n, e := range l.due() {
		_, err := fsm.Propose(ctx, l.Proposer, fsm.VariableLockExpire, &access.VariableExpiry{
			Namespace: n.namespace,
			Path:      n.path,
			LockID:    e.id,
			DelayOver: e.delay,
		})
		if err == nil {
			recorded = append(recorded, n)
			continue
		}

		if ctx.Err() == nil {
			l.Logger.Warn("failed to record the end of the lock of a variable, retrying",
				"namespace", n.namespace, "path", n.path, "error", err)
		}
	}

	l.read(recorded)
}
