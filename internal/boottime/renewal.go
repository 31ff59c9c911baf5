package boottime

import (
	"context"
	"math/rand/v2"
	"time"
)

// LifeAtRenewal returns how much of its life something has behind it when it is renewed: half of it, or two
// thirds if another one replaces it, which its users have to take up. The rest is for the attempts that fail.
func LifeAtRenewal(life time.Duration, replaced bool) time.Duration {
	if replaced {
		return life / 3 * 2
	}
	return life / 2
}

// RenewAfter returns the time from now at which something that begins now is renewed: LifeAtRenewal, or up to
// a tenth less. Things that begin together are therefore renewed one after the other.
func RenewAfter(life time.Duration, replaced bool) time.Duration {
	at := LifeAtRenewal(life, replaced)
	return at - rand.N(at/10+1)
}

// longestSleep bounds one timer: timers stop while the machine is suspended.
const longestSleep = time.Minute

// SleepUntil waits until the clock has come to an instant, and at most a minute longer if the machine was
// suspended meanwhile. It returns false when ctx ends before.
func (c Clock) SleepUntil(ctx context.Context, at Instant) bool {
	for ctx.Err() == nil {
		left := at.Sub(c())
		if left <= 0 {
			return true
		}

		timer := time.NewTimer(min(left, longestSleep))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return false
}
