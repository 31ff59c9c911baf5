package loadshed

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"berth/structs"
)

// Permits bounds the number of concurrent requests: each holds one permit.
type Permits chan struct{}

// TryEnter takes a permit if there is one.
func (p Permits) TryEnter() bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		return false
	}
}

// Enter takes a permit, and waits for it until patience is over or ctx ends.
func (p Permits) Enter(ctx context.Context, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}

	return false
}

// Leave gives a permit back.
func (p Permits) Leave() {
	<-p
}

// QueueConfig tunes a queue.
type QueueConfig struct {
	Limit    string        // its label in the count of rejected requests
	Text     string        // the text of a rejection, and of the error of a request whose context ends
	Permits  int           // concurrent requests
	Waiting  int           // requests that wait for a permit
	Patience time.Duration // how long a request waits
	Soonest  time.Duration // the bounds of the time after which a rejected request may be retried
	Latest   time.Duration
}

// Queue bounds the number of concurrent requests. Some more wait, in the order of their arrival and not for
// long. Any other is rejected at once, so that a load beyond the sustainable one costs little, and the
// admitted requests take no longer for it.
type Queue struct {
	config  QueueConfig
	permits Permits
	waiting Permits // for the requests that wait
	pacer   pacer
	full    atomic.Int64 // requests rejected without a wait, which are not counted yet

	mu   sync.Mutex
	took time.Duration // about the time that a request takes, lately
}

// NewQueue returns an empty queue.
func NewQueue(c QueueConfig) *Queue {
	return &Queue{
		config:  c,
		permits: make(Permits, c.Permits),
		waiting: make(Permits, c.Waiting),
		pacer: pacer{
			soonest: c.Soonest,
			latest:  c.Latest,
		},
	}
}

// Full rejects one more request if the queue has neither a permit for it nor a position to wait, in addition
// to the requests on their way to Enter. Enter may still reject a request that Full admits.
func (q *Queue) Full(coming int) error {
	taken := len(q.permits) + len(q.waiting) + coming
	if taken < cap(q.permits)+cap(q.waiting) {
		return nil
	}
	q.full.Add(1)
	return q.rejection()
}

// Enter takes a permit, and waits for one if it may. The request calls leave when it has ended.
func (q *Queue) Enter(ctx context.Context) (leave func(), err error) {
	if !q.permits.TryEnter() {
		if !q.waiting.TryEnter() {
			q.full.Add(1)
			return nil, q.rejection()
		}

		entered := q.permits.Enter(ctx, q.config.Patience)
		q.waiting.Leave()
		switch {
		case entered:
		case ctx.Err() != nil:
			return nil, structs.Unavailablef("%s: %w",
				q.config.Text, ctx.Err())
		default:
			CountRejected(q.config.Limit+" patience", 1)
			return nil, q.rejection()
		}
	}

	start := time.Now()
	return func() {
		q.permits.Leave()
		q.recordDuration(time.Since(start))
		q.countRejected()
	}, nil
}

// recordDuration adds the time that a request has taken to the moving average.
func (q *Queue) recordDuration(took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.took += (took - q.took) / 8
}

// countRejected counts the requests that were rejected without a wait. To count one takes 5 µs with the
// sinks of an agent, and to reject it 0.7. So they are counted together, each time a request ends.
func (q *Queue) countRejected() {
	n := q.full.Swap(0)
	if n > 0 {
		CountRejected(q.config.Limit+" full", int(n))
	}
}

// rejection returns the error of a rejected request. Up to Latest, its retry time is later than the expected
// end of all waiting requests and than every retry time given before.
func (q *Queue) rejection() error {
	permits := time.Duration(q.config.Permits)
	rounds := 1 + time.Duration(len(q.waiting))/permits
	q.mu.Lock()
	took := q.took
	q.mu.Unlock()
	delay := q.pacer.retryAfter(rounds*took, took/permits)
	return structs.Busy(delay, "%s", q.config.Text)
}
