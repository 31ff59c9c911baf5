package clock

import (
	"testing"
	"time"

	"berth/internal/boottime"
	"berth/state/clustertime"
	"berth/structs/cluster"
)

const hour = int64(time.Hour)

// clockOf returns the clock of a row, with the time that has passed since.
func clockOf(row cluster.ClusterTime, passed time.Duration) *Cluster {
	now := boottime.Instant(0)
	c := New(func() boottime.Instant { return now }, func() *cluster.ClusterTime { return &row })
	c.Now()
	now = now.Add(passed)
	return c
}

// pass advances a row each 20 seconds, by clocks that are that much ahead.
func pass(row cluster.ClusterTime, real *int64, d, ahead time.Duration) cluster.ClusterTime {
	const step = 20 * time.Second
	for range d / step {
		*real += int64(step)
		row = clustertime.Advance(&row, clustertime.Reading{
			Wall:       *real + int64(ahead),
			Passed:     step,
			Agreed:     true,
			Quarantine: time.Hour,
		})
	}
	return row
}

// A caller that read the row before another caller saw the next one has the time of the next one, too.
func TestClock_NeverGoesBack(t *testing.T) {
	const step = 20 * time.Second
	rows := []*cluster.ClusterTime{{Time: hour}, {Time: hour + int64(step)}}
	rows[0].ModifyIndex = 1
	rows[1].ModifyIndex = 2
	newest := rows[0]
	passed := boottime.Instant(0)
	var c *Cluster
	c = New(func() boottime.Instant { return passed }, func() *cluster.ClusterTime {
		read := newest
		if passed > 0 && newest == rows[0] && c.mu.TryLock() { // nothing keeps another caller away
			c.mu.Unlock()
			newest = rows[1]
			c.Now()
		}
		return read
	})
	c.Now()
	passed = passed.Add(step)
	if got := c.Now().UnixNano(); got != rows[1].Time {
		t.Errorf("the time goes back by %s", time.Duration(rows[1].Time-got))
	}
}

// The servers were off for three days, and the time follows an hour after that.
func TestClock_AgesNothingByAJump(t *testing.T) {
	real := 1000 * hour
	row := clustertime.Advance(nil, clustertime.Reading{Wall: real})
	const off = 72 * time.Hour
	row = pass(row, &real, 30*time.Minute, off)
	during := row.Time
	row = pass(row, &real, 30*time.Minute+40*time.Second, off)
	if len(row.Jumps) != 1 {
		t.Fatalf("%+v", row)
	}
	c := clockOf(row, 0)
	age := func(stamp int64) time.Duration { return time.Duration(row.Time - c.Corrected(stamp)) }
	if got := age(1000*hour - hour); got != off+time.Hour+time.Hour+40*time.Second {
		t.Errorf("a row of the time before is %s old", got)
	}
	if got := age(during); got != 30*time.Minute+40*time.Second {
		t.Errorf("a row of the quarantine is %s old", got)
	}
	if c.Passed(during + 24*hour) {
		t.Error("a deadline of a day has passed within the quarantine")
	}
	if c := clockOf(row, 23*time.Hour+31*time.Minute); !c.Passed(during + 24*hour) {
		t.Error("a deadline of a day has not passed after a day")
	}
	if !c.Passed(999 * hour) {
		t.Error("a deadline that had passed before is open")
	}
}

func TestClock_TakesARowOfTheFutureForANewOne(t *testing.T) {
	c := clockOf(cluster.ClusterTime{Time: 1000 * hour}, time.Minute)
	if got := c.Now(); !got.Equal(time.Unix(0, 1000*hour).Add(time.Minute)) {
		t.Errorf("it is %s", got)
	}
	if at := c.After(1030*hour, time.Hour); !at.IsZero() {
		t.Errorf("a pause after a time of the future ends at %s, want at once", at)
	}
}
