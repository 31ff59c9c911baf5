package hostpath

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// What is busy may be so for a moment only: a process holds what its parent had open, and the mounts its
// parent saw, from its fork until its exec, and one that was killed until the kernel has buried it. Nothing
// tells when that ends, so it is tried again, with pauses that grow to longestPause and add up to patience.
// The pauses are counted, not the time: on a machine that is slow, who holds it is slow too.
const (
	patience      = 2 * time.Second
	shortestPause = time.Millisecond
	longestPause  = 100 * time.Millisecond
)

// patiently tries until the error is another than EBUSY, or there is no patience left: then EBUSY is
// returned as it came.
func patiently(ctx context.Context, try func() error) error {
	pause := shortestPause
	for waited := time.Duration(0); ; waited += pause {
		err := try()
		if !errors.Is(err, unix.EBUSY) || waited >= patience {
			return err
		}
		pause = min(2*pause, longestPause)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fail(codes.Unavailable, "the driver ends: %w", err)
		}
	}
}
