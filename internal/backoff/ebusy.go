package backoff

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// The delays of RetryEBUSY grow to longestEBUSY and add up to Patience. The delays are counted, not the time:
// on a slow machine the process that holds the resource is slow, too.
const (
	Patience      = 2 * time.Second
	shortestEBUSY = 2 * time.Millisecond
	longestEBUSY  = 100 * time.Millisecond
)

// RetryEBUSY repeats try until its error is not EBUSY, ctx ends, or Patience is used up. It returns the last
// error unchanged. The kernel often reports busy only for a moment: from its fork until its exec a process
// holds the files and the mounts of its parent, and so does a killed process until the kernel has removed it.
// No event marks the end of this. An error after Patience means a real use.
func RetryEBUSY(ctx context.Context, try func() error) error {
	delays := Backoff{Min: shortestEBUSY, Max: longestEBUSY}
	var waited time.Duration
	for {
		err := try()
		if !errors.Is(err, unix.EBUSY) || waited >= Patience {
			return err
		}
		delay := delays.Next()
		waited += delay
		if !Sleep(ctx, delay) {
			return err
		}
	}
}
