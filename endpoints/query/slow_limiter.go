package query

import (
	"context"
	"runtime"
	"time"
)

// pace is for reads that wait for news of so much that to look takes long, such as lists of all volumes. Each change
// wakes all of them; if each looked at once, the servers would do nothing else while much changes. So these
// look one after the other, and after each look there is a rest in which nobody does. They see the news later, all
// of it at once. It holds a token for each that may look now.
type pace chan struct{}

const (
	longLook = 2 * time.Millisecond // what takes less may always look
	rest     = 3                    // times as long as a look has taken
)

func newPace() pace {
	p := make(pace, max(1, runtime.GOMAXPROCS(0)/2))
	for range cap(p) {
		p <- struct{}{}
	}
	return p
}

// turn waits until somebody may look whose look took so long the last time. done is to be called after it.
func (p pace) turn(ctx context.Context, took time.Duration) (done func(took time.Duration), err error) {
	if took < longLook {
		return func(time.Duration) {}, nil
	}
	select {
	case <-p:
		return func(took time.Duration) { time.AfterFunc(rest*took, func() { p <- struct{}{} }) }, nil
	case <-ctx.Done():
		return func(time.Duration) {}, ctx.Err()
	}
}
