package services

import (
	"context"
	"time"

	"berth/internal/backoff"
)

// followInterval is the pace at which followCheck reads.
const followInterval = time.Second

// readCheck returns the last result of a check that somebody else runs: a state with its output. It is false
// if there is none since the call before. It must not block.
type readCheck func() (status, output string, fresh bool)

// followCheck is startCheck for a check that somebody else runs, with the thresholds of its results. A result
// counts for check_restart once in its interval. Without a fresh one the status stays as it was.
func followCheck(ctx context.Context, t checkTarget, c checkConfig, read readCheck) *healthCheck {
	ctx, cancel := context.WithCancel(ctx)
	k := newCheck(t, c, cancel)
	k.direct = true
	go k.follow(ctx, read)
	return k
}

// follow reads results until ctx ends.
func (k *healthCheck) follow(ctx context.Context, read readCheck) {
	defer close(k.done)
	var counted time.Time
	for {
		status, output, fresh := read()
		now := time.Now()
		r := probeResult{status, bound(output)}
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
