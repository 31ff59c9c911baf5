// Package busy tries again what the system refuses as busy (EBUSY), because that may be so for a moment
// only: a process holds what its parent had open, and the mounts its parent saw, from its fork until its
// exec, and one that was killed until the kernel has buried it. Nothing tells when that ends.
//
// Whether something is really in use is left to the caller: it is told when there is no patience left.
package busy

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Pauses grow to longestPause and add up to Patience. They are counted, not the time: on a machine that is
// slow, who holds what is wanted is slow too.
const (
	Patience      = 2 * time.Second
	shortestPause = time.Millisecond
	longestPause  = 100 * time.Millisecond
)

// Retry tries until the error is another than EBUSY, ctx ends, or there is no patience left. It returns the
// last error as it came.
func Retry(ctx context.Context, try func() error) error {
	pause := shortestPause
	for waited := time.Duration(0); ; waited += pause {
		err := try()
		if !errors.Is(err, unix.EBUSY) || waited >= Patience {
			return err
		}
		pause = min(2*pause, longestPause)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}
