// Package retry paces attempts that are repeated until they succeed: doubling pauses without jitter, so
// that a test in virtual time can say when each happens. Only where a server said when to come again there
// is jitter: it told many the same. Whether to try again is the caller's decision.
package retry

import (
	"context"
	"math/rand/v2"
	"time"

	"berth/structs"
)

// Backoff is the pause before the next attempt. The zero value is not useful: set Min and Max.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration
}

// Next is the pause that Wait would take now; it doubles from Min to Max.
func (b *Backoff) Next() time.Duration {
	d := max(b.next, b.Min)
	b.next = min(2*d, b.Max)
	return d
}

// After is Next after an attempt that failed so: when the server said how soon to come again, the pause is
// that and up to half as much, or what it would have been if that is longer.
func (b *Backoff) After(err error) time.Duration {
	d := b.Next()
	if said := structs.RetryAfter(err); said > 0 {
		d = max(d, said+rand.N(said/2+1))
	}
	return d
}

// Wait pauses, longer each time. It reports false when ctx ended first.
func (b *Backoff) Wait(ctx context.Context) bool { return Sleep(ctx, b.Next()) }

// Reset begins again with the shortest pause, after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Sleep pauses for d. It reports false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
