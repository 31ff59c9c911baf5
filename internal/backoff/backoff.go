// Package backoff paces attempts that are repeated until they succeed. The delays double and have no jitter,
// so that a test in virtual time can predict each attempt. Only a retry delay of a server has jitter, because
// the server gave the same one to many callers. The caller decides whether to retry.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"

	"berth/structs"
)

// Backoff is the delay before the next attempt. Min and Max are set before its first use.
type Backoff struct {
	Min, Max time.Duration
	failures int // in a row
}

// Delay returns the delay after a number of failures in a row: none, Min, twice Min, and so on up to Max. It
// does not depend on the earlier calls.
func (b Backoff) Delay(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}

	delay := b.Min
	for range failures - 1 {
		delay *= 2
		if delay >= b.Max {
			break
		}
	}

	return min(delay, b.Max)
}

// Next counts a failure and returns the delay after it.
func (b *Backoff) Next() time.Duration {
	b.failures++
	return b.Delay(b.failures)
}

// After is Next after a failed attempt. If the error has a retry delay of the server, the pause is that and
// up to half as much, or the usual pause if that is longer.
func (b *Backoff) After(err error) time.Duration {
	d := b.Next()
	advised := structs.RetryAfter(err)
	if advised > 0 {
		d = max(d, advised+rand.N(advised/2+1))
	}
	return d
}

// Wait pauses, longer each time. It reports false when ctx ended first.
func (b *Backoff) Wait(ctx context.Context) bool {
	return Sleep(ctx, b.Next())
}

// Reset begins again with the shortest pause, after a success.
func (b *Backoff) Reset() {
	b.failures = 0
}

// Logger takes warnings. An hclog.Logger is one.
type Logger interface {
	Warn(msg string, args ...any)
}

// Retry calls attempt until it succeeds. It logs each failure as msg and pauses after it, as After returns.
// It reports false if ctx ended first.
func (b Backoff) Retry(
	ctx context.Context, logger Logger, msg string, attempt func(context.Context) error,
) bool {
	for {
		err := attempt(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		wait := b.After(err)
		logger.Warn(msg, "retry_in", wait, "error", err)
		if !Sleep(ctx, wait) {
			return false
		}
	}
}

// Sleep pauses for d. It reports false if ctx has ended: no caller goes on after the end of ctx, also if both
// are over at once.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}

	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}

	return ctx.Err() == nil
}
