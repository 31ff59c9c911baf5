package backoff

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestRetryEBUSY_TriesAgainForAWhile(t *testing.T) {
	other := errors.New("other")
	for name, c := range map[string]struct {
		busy   int // how often
		then   error
		want   error
		within [2]time.Duration
	}{
		"free at once":           {0, nil, nil, [2]time.Duration{0, 0}},
		"free at the second try": {1, nil, nil, [2]time.Duration{time.Millisecond, 10 * time.Millisecond}},
		"another fault":          {3, other, other, [2]time.Duration{time.Millisecond, 100 * time.Millisecond}},
		"free late":              {15, nil, nil, [2]time.Duration{time.Millisecond, Patience}},
		"never free":             {1 << 30, nil, unix.EBUSY, [2]time.Duration{Patience, Patience + longestEBUSY}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				tries := 0
				err := RetryEBUSY(t.Context(), func() error {
					tries++
					if tries <= c.busy {
						return fmt.Errorf("trying: %w", unix.EBUSY)
					}
					return c.then
				})
				if took := time.Since(begin); !errors.Is(err, c.want) || took < c.within[0] || took > c.within[1] {
					t.Errorf("got %v after %s and %d tries, want %v after %s to %s",
						err, took, tries, c.want, c.within[0], c.within[1])
				}
			})
		})
	}
}

func TestRetryEBUSY_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := RetryEBUSY(ctx, func() error {
		cancel()
		tries++
		return unix.EBUSY
	})
	if !errors.Is(err, unix.EBUSY) || tries != 1 {
		t.Errorf("got %v after %d tries, want EBUSY after 1", err, tries)
	}
}
