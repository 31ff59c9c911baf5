package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

// slowLane serves one request at a time, each as long as the others.
type slowLane struct {
	takes  time.Duration
	answer func(n int) error
	free   chan struct{}
}

func newSlowLane(takes time.Duration, answer func(n int) error) *slowLane {
	l := &slowLane{takes, answer, make(chan struct{}, 1)}
	l.free <- struct{}{}
	return l
}

func (l *slowLane) flush() error { return nil }
func (l *slowLane) close()       {}

func (l *slowLane) send(ctx context.Context, n int, a attempt) error {
	select {
	case <-l.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	a.sending()
	time.AfterFunc(l.takes, func() {
		err := l.answer(n)
		l.free <- struct{}{}
		a.answered(err)
	})
	return nil
}

func goodAnswer(int) error { return nil }

// TestOpenLoop_TimesCountFromTheSchedule offers twice the rate of the lane: the i-th of 200 requests is due
// after 5i milliseconds and sent after 10i.
func TestOpenLoop_TimesCountFromTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := offer{rate: 200, time: time.Second}.run(t.Context(),
			[]lane{newSlowLane(10*time.Millisecond, goodAnswer)})
		if a.sent != 200 || len(a.took) != 200 ||
			a.unsent != 0 || a.within != 99 && a.within != 100 {
			t.Errorf("%d were sent, %d answered, %d of them in time, %d unsent", a.sent, len(a.took),
				a.within, a.unsent)
		}
		for _, of := range []struct {
			what string
			got  time.Duration
			want time.Duration
		}{
			{"the last was sent late by", a.lag[199], 995 * time.Millisecond},
			{"one in the middle by", a.lag[100], 500 * time.Millisecond},
			{"the last took", a.took[199], 1005 * time.Millisecond},
			{"from when it was sent", a.served[199], 10 * time.Millisecond},
			{"all together", a.finished, 2 * time.Second},
		} {
			if off := of.got - of.want; off < -time.Microsecond || off > time.Microsecond {
				t.Errorf("%s %s, want %s", of.what, of.got, of.want)
			}
		}
	})
}

// TestOpenLoop_ReportsUnsentRequests offers so much that half of it is left when the load has had its time.
func TestOpenLoop_ReportsUnsentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowLane(10*time.Millisecond, goodAnswer)
		a := offer{rate: 2200, time: time.Second}.run(t.Context(), []lane{slow})
		if a.sent < 1099 || a.sent > 1101 || a.sent+a.unsent != 2200 {
			t.Errorf("%d were sent and %d unsent, want a half each of 2200", a.sent, a.unsent)
		}
		<-slow.free // the last answer, after the end
	})
}

// TestOpenLoop_RetriesWhenTold until it is served, or the load's time is up.
func TestOpenLoop_RetriesWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rejected := map[int]bool{}
		once := newSlowLane(time.Millisecond, func(n int) error {
			if rejected[n] {
				return nil
			}
			rejected[n] = true
			return structs.Busy(100*time.Millisecond, "too much")
		})
		a := offer{
			rate:   100,
			time:   time.Second,
			honour: true,
		}.run(t.Context(), []lane{once})
		if len(a.took) != 100 || len(a.rejected) != 100 ||
			a.advised != 100 || a.unsent != 0 || a.failed != 0 {
			t.Errorf("%d were served, %d rejected, %d unsent, %d failed", len(a.took), len(a.rejected),
				a.unsent, a.failed)
		}
		if a.took[0] < 100*time.Millisecond {
			t.Errorf("one was served after %s, too early", a.took[0])
		}
		never := newSlowLane(time.Millisecond, func(int) error {
			return structs.Busy(3*time.Second, "too much")
		})
		a = offer{
			rate:   100,
			time:   time.Second,
			honour: true,
		}.run(t.Context(), []lane{never})
		if underWay := a.sent - len(a.rejected); len(a.took) != 0 || underWay > 1 || a.unsent+underWay != 100 {
			t.Errorf("%d served, %d in flight and %d unsent; want no answer to 100", len(a.took),
				underWay, a.unsent)
		}
	})
}
