package registry

import (
	"context"
	"math/rand/v2"
	"time"

	"berth/internal/backoff"
)

// Jitter returns about d, at random up to a tenth less, so that a node does not call all of its plugins at
// once.
func Jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/10+1))
}

// Sleep pauses for about d. It reports false if ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool { return backoff.Sleep(ctx, Jitter(d)) }

// Rounds are repeated calls. Any goroutine may ask for the next round early, and one goroutine waits for each
// round.
type Rounds struct {
	least time.Duration
	asked chan struct{}
}

// NewRounds makes Rounds between which least passes at the least, also if somebody asks.
func NewRounds(least time.Duration) Rounds {
	return Rounds{least, make(chan struct{}, 1)}
}

// Ask asks for a round that begins after this moment, before it is due. It never waits.
func (r Rounds) Ask() {
	select {
	case r.asked <- struct{}{}:
	default: // the next round is early already
	}
}

// Wait pauses for about d, or until somebody asks. It reports false if ctx ended.
func (r Rounds) Wait(ctx context.Context, d time.Duration) bool {
	d = Jitter(d)
	early := time.Now().Add(min(r.least, d))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-r.asked:
		return backoff.Sleep(ctx, time.Until(early))
	}
	return ctx.Err() == nil
}
