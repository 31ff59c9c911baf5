package chaos

import (
	"berth/api/operator"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"berth/structs/cluster"
)

// measureLeaderStall measures for how long no write is acknowledged when the leader is lost.
func measureLeaderStall(w *world) error {
	if err := w.startAll(); err != nil {
		return err
	}
	for _, loss := range []struct {
		name string
		make effect
		aim  aim
	}{
		{"SIGSTOP of the leader", freezeAgent, aim{3 * time.Second, true}},
		{"kill -9 of the leader", killAgent, aim{2 * time.Second, true}},
	} {
		var cluster, slowest []time.Duration
		for run := range w.runs {
			all, one, err := w.loseLeader(loss.make)
			if err != nil {
				return fmt.Errorf("%s, run %d: %w", loss.name, run+1, err)
			}
			w.note("%s: %s without a write, %s at one server", loss.name, all, one)
			cluster = append(cluster, all)
			slowest = append(slowest, one)
		}
		printTimes(loss.name+": no write at any server", cluster, loss.aim)
		printTimes(loss.name+": no write at the slower server", slowest, loss.aim)
	}
	return nil
}

// sentWrite is an acknowledged write.
type sentWrite struct{ sent, acked time.Time }

// serverWriter makes one write after another at a server.
type serverWriter struct {
	w      *world
	server *member

	mu     sync.Mutex
	writes []sentWrite
}

// run makes writes until the context ends. An operator repeats a write that fails.
func (r *serverWriter) run(ctx context.Context) {
	config := cluster.DefaultSchedulerConfiguration()
	for ctx.Err() == nil {
		var s sentWrite
		s.sent = time.Now()
		err := call(func(ctx context.Context) error {
			_, err := operator.SetSchedulerConfig(ctx, r.server.client, &config, false)
			return err
		})
		s.acked = time.Now()
		if err != nil {
			r.w.note("a write at %s failed after %s: %s", r.server.name, s.acked.Sub(s.sent), outcome(err))
			sleep(ctx, 20*time.Millisecond)
			continue
		}
		r.mu.Lock()
		r.writes = append(r.writes, s)
		r.mu.Unlock()
	}
}

// acks returns the times of the acknowledgements, and the begin of the last write.
func (r *serverWriter) acks() (acked []time.Time, lastSent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.writes {
		acked = append(acked, s.acked)
		lastSent = s.sent
	}
	return acked, lastSent
}

const (
	// writesBefore is the number of writes at each server before the leader is lost.
	writesBefore = 50
	// stopsWithin is the time in which a signal certainly has its effect.
	stopsWithin = 50 * time.Millisecond
)

// loseLeader loses the leader while both other servers take writes. It returns the longest time without an
// acknowledgement of any of them, and the longest one of one of them. The leader is back when it returns.
func (w *world) loseLeader(lose effect) (all, one time.Duration, err error) {
	leader := w.leader()
	if leader == nil {
		return 0, 0, errors.New("no leader")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var writers []*serverWriter
	for _, s := range w.servers {
		if s != leader {
			r := &serverWriter{w: w, server: s}
			writers = append(writers, r)
			running.Go(func() { r.run(ctx) })
		}
	}
	if err := await(beginFor, func() error { return haveWritten(writers, time.Time{}) }); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	undo, err := lose(ctx, w, leader, &fault{})
	if err != nil {
		return 0, 0, err
	}
	lost := time.Now().Add(stopsWithin)
	err = await(beginFor, func() error { return haveWritten(writers, lost) })
	if err != nil {
		return 0, 0, err
	}
	all, one = longestPauses(writers, begin)
	cancel()
	return all, one, errors.Join(undo(), w.startAll())
}

// haveWritten returns nil if each writer has written often, and once since a time.
func haveWritten(writers []*serverWriter, since time.Time) error {
	for _, r := range writers {
		acked, lastSent := r.acks()
		if len(acked) < writesBefore || lastSent.Before(since) {
			return fmt.Errorf("%s has acknowledged %d writes, the last one of %s", r.server.name, len(acked), lastSent)
		}
	}
	return nil
}

// longestPauses returns the longest time without an acknowledgement of any writer that ends after a time, and
// the longest such time of one writer.
func longestPauses(writers []*serverWriter, after time.Time) (all, one time.Duration) {
	var merged []time.Time
	for _, r := range writers {
		acked, _ := r.acks()
		one = max(one, longestPause(acked, after))
		merged = append(merged, acked...)
	}
	slices.SortFunc(merged, time.Time.Compare)
	return longestPause(merged, after), one
}

func longestPause(acked []time.Time, after time.Time) (longest time.Duration) {
	for i := 1; i < len(acked); i++ {
		if acked[i].After(after) {
			longest = max(longest, acked[i].Sub(acked[i-1]))
		}
	}
	return longest
}
