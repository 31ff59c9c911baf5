package healthcheck

import (
	"context"
	"time"

	"berth/internal/backoff"
)

// followInterval is the pace at which Follow reads.
const followInterval = time.Second

// Read returns the last result of a check that somebody else runs: a state with its output. It is false if
// there is none since the call before. It must not block.
type Read func() (status, output string, fresh bool)

// Follow is Start for a check that somebody else runs, with the thresholds of its results. A result counts
// for check_restart once in its interval. Without a fresh one the status stays as it was.
func Follow(ctx context.Context, t Target, c Config, read Read) *Check {
	ctx, cancel := context.WithCancel(ctx)
	k := newCheck(t, c, cancel)
	k.direct = true
	go k.follow(ctx, read)
	return k
}

// follow reads results until ctx ends.
func (k *Check) follow(ctx context.Context, read Read) {
	defer close(k.done)
	var counted time.Time
	for {
		status, output, fresh := read()
		now := time.Now()
		r := result{status, bound(output)}
		if fresh && k.record(r, now) {
			k.changed()
		}

		if fresh && now.Sub(counted) >= k.target.Check.Interval {
			counted = now
			k.countRestart(r, now)
		}

		if !backoff.Sleep(ctx, followInterval) {
			return
		}
	}
}
