package query

import (
	"context"
	"runtime"
	"time"
)

// slowLimiter bounds the blocking queries that take long, such as lists of all volumes. Each change wakes all
// of them. If all ran at once, the servers would do nothing else during many changes. So they run one after
// another, with an idle time after each, and see many changes at once. The channel has a token for each query
// that may run now.
type slowLimiter chan struct{}

const (
	slowQuery = 2 * time.Millisecond // a query that takes less always runs
	idleTimes = 3                    // the idle time is this multiple of the time that the query took
)

func newSlowLimiter() slowLimiter {
	l := make(slowLimiter, max(1, runtime.GOMAXPROCS(0)/2))
	for range cap(l) {
		l <- struct{}{}
	}
	return l
}

// acquire waits until a query may run; took is the time of its last run. The caller calls release after the
// query.
func (l slowLimiter) acquire(
	ctx context.Context,
	took time.Duration,
) (release func(took time.Duration), err error) {
	if took < slowQuery {
		return func(time.Duration) {}, nil
	}
	select {
	case <-l:
		return func(took time.Duration) {
			time.AfterFunc(idleTimes*took, func() {
				l <- struct{}{}
			})
		}, nil
	case <-ctx.Done():
		return func(time.Duration) {}, ctx.Err()
	}
}
