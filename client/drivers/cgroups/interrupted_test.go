package cgroups

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUninterrupted_RepeatsACallThatASignalEnds(t *testing.T) {
	for want, errs := range map[error][]error{
		nil:         {unix.EINTR, fmt.Errorf("write: %w", unix.EINTR), nil},
		unix.EINVAL: {&os.PathError{Err: unix.EINTR}, unix.EINVAL},
	} {
		calls := 0
		err := uninterrupted(func() error {
			calls++
			return errs[calls-1]
		})
		if !errors.Is(err, want) || calls != len(errs) {
			t.Errorf("got %v after %d calls, want %v after %d", err, calls, want, len(errs))
		}
	}
}
