package backoff

import (
	"context"
	"sync"
	"time"

	"berth/structs"
)

// Recovery tells all loops at once that the cause of their failures is over, for example a cut between this
// machine and the servers. Its zero value is ready for use.
type Recovery struct {
	mu   sync.Mutex
	next chan struct{} // closed and replaced at each announcement
}

// Next returns a channel that closes at the next announcement. Call it before an attempt: the recovery may
// come during it. The channel of a nil recovery never closes.
func (r *Recovery) Next() <-chan struct{} {
	if r == nil {
		return nil
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}

	return r.next
}

// Announce ends the pauses of all loops.
func (r *Recovery) Announce() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != nil {
		close(r.next)
	}
	r.next = nil
}

// Attempt makes an attempt that ends with a recovery: it may hang on a connection from before, and the next
// one succeeds.
func Attempt(ctx context.Context, recovered <-chan struct{}, attempt func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-recovered:
			cancel()
		case <-ctx.Done():
		}
	})

	err := attempt(ctx)
	cancel()
	watch.Wait()
	return err
}

// SleepAfter pauses for d after a failed attempt. If recovered closes before the end, the pauses begin again
// with the shortest. It reports false if ctx has ended.
func (b *Backoff) SleepAfter(
	ctx context.Context, d time.Duration, err error, recovered <-chan struct{},
) bool {
	if EndsEarly(ctx, d, err, recovered) {
		b.Reset()
	}
	return ctx.Err() == nil
}

// EndsEarly pauses for d after a failed attempt, and reports whether recovered closed before the end. A delay
// that the server has asked for does not end early.
func EndsEarly(ctx context.Context, d time.Duration, err error, recovered <-chan struct{}) bool {
	if structs.RetryAfter(err) > 0 {
		recovered = nil
	}

	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-recovered:
		return true
	case <-ctx.Done():
	}

	return false
}
