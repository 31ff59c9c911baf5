// Package cuttest has a cut between a machine and the servers, for tests of the pauses between attempts.
// The tests run in virtual time. It is apart from package kit of the tests, which imports no package of
// berth.
package cuttest

import (
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// failing is the number of attempts in the cut.
const failing = 8

// Cut ends, with an announcement, during its last attempt, which fails, too. The first attempt after it also
// fails.
type Cut struct {
	Back backoff.Recovery
	at   []time.Time
}

// Attempt returns the result of the next attempt.
func (c *Cut) Attempt() error {
	c.at = append(c.at, time.Now())
	if len(c.at) == failing {
		c.Back.Announce()
	}
	if len(c.at) <= failing+1 {
		return structs.Unavailablef("no route")
	}
	return nil
}

// Pauses returns the last pause in the cut and the two after it. It panics if there were fewer attempts.
func (c *Cut) Pauses() (before, first, second time.Duration) {
	pause := func(n int) time.Duration { return c.at[n].Sub(c.at[n-1]) }
	return pause(failing - 1), pause(failing), pause(failing + 1)
}
