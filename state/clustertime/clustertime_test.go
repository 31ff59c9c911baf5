package clustertime

import (
	"reflect"
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

const hour = int64(time.Hour)

// run advances a row each 20 seconds, by clocks whose wall is that much ahead of the time that has passed.
func run(row cluster.ClusterTime, real *int64, d, ahead time.Duration, agreed bool) cluster.ClusterTime {
	const step = 20 * time.Second
	for range d / step {
		*real += int64(step)
		row = Advance(&row, Reading{
			Wall:       *real + int64(ahead),
			Passed:     step,
			Agreed:     agreed,
			Quarantine: time.Hour,
		})
	}
	return row
}

func TestAdvance_CountsOnlyTimeThatHasPassed(t *testing.T) {
	const far = 30 * time.Hour
	for name, c := range map[string]struct {
		run   func(row cluster.ClusterTime, real *int64) cluster.ClusterTime
		ahead time.Duration // of the time that has passed, at the end
	}{
		"a right clock": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			return run(r, real, 10*time.Hour, 0, true)
		}, 0},
		"a clock that is ahead for a minute": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			r = run(r, real, time.Minute, far, true)
			return run(r, real, 10*time.Hour, 0, true)
		}, 0},
		"a clock that is ahead again and again": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			for range 50 {
				r = run(r, real, 50*time.Minute, far, true)
				r = run(r, real, time.Minute, 0, true)
			}
			return r
		}, 0},
		"a clock that is set further each time": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			for n := range 50 {
				r = run(r, real, 50*time.Minute, far*time.Duration(n+1), true)
			}
			return r
		}, 0},
		"one server against the others": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			return run(r, real, 10*time.Hour, far, false)
		}, 0},
		"others that agree at times": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			for range 50 {
				r = run(r, real, 50*time.Minute, far, true)
				r = run(r, real, time.Minute, far, false)
			}
			return r
		}, 0},
		"all servers agree until the end of the quarantine": {
			func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
				return run(r, real, 59*time.Minute, far, true)
			}, 0,
		},
		"all servers agree for the quarantine": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			return run(r, real, 61*time.Minute, far, true)
		}, far},
		"a clock that is behind": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			return run(r, real, 10*time.Hour, -far, false)
		}, 0},
		"a clock that is behind, as most are": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			return run(r, real, 10*time.Hour, -far, true)
		}, -time.Hour},
		"a clock that is half a minute ahead": {func(r cluster.ClusterTime, real *int64) cluster.ClusterTime {
			return run(r, real, time.Hour, 30*time.Second, true)
		}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			real := 1000 * hour
			got := c.run(Advance(nil, Reading{Wall: real}), &real)
			if ahead := time.Duration(got.Time - real); ahead != c.ahead {
				t.Errorf("%s ahead of the time that has passed, want %s: %+v", ahead, c.ahead, got)
			}
		})
	}
}

// A difference within the tolerance makes the time faster or slower by a tenth, and a new leader takes over
// at once that it is behind: the last entry of the former one is that old.
func TestAdvance_ApproachesTheClock(t *testing.T) {
	const half = int64(30 * time.Second)
	old := &cluster.ClusterTime{Time: 1000 * hour}
	for name, c := range map[string]struct {
		r    Reading
		gain time.Duration
	}{
		"a leader":                    {Reading{Passed: 20 * time.Second, Wall: half}, 22 * time.Second},
		"a leader that is behind":     {Reading{Passed: 20 * time.Second, Wall: -half}, 18 * time.Second},
		"a new leader":                {Reading{First: true, Wall: half}, 30 * time.Second},
		"a new leader that is behind": {Reading{First: true, Wall: -half}, 0},
		"a clock that stands still":   {Reading{Wall: half}, 0},
	} {
		c.r.Wall += old.Time + int64(c.r.Passed)
		if got := Advance(old, c.r); time.Duration(got.Time-old.Time) != c.gain || got.Since != 0 {
			t.Errorf("%s: %+v, want %s more", name, got, c.gain)
		}
	}
}

// The first leader with a cluster time may have a wrong clock: it does not age the rows of an older version.
func TestAdvance_BeginsAtTheNewestRow(t *testing.T) {
	const wall = 1000 * hour
	for name, c := range map[string]struct {
		r    Reading
		want int64
	}{
		"a new cluster":                    {Reading{}, wall},
		"most servers have that clock":     {Reading{Newest: wall - 3*hour, Agreed: true}, wall},
		"no others have that clock":        {Reading{Newest: wall - 3*hour}, wall - 3*hour},
		"the newest row is of just before": {Reading{Newest: wall - int64(time.Second), First: true}, wall},
	} {
		c.r.Wall = wall
		if got := Advance(nil, c.r); got.Time != c.want || (got.Since != 0) != (c.want != wall) {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
}

// The word of an operator steps the time to a clock, forward or back. After a step back, no former step moves
// the times of new rows.
func TestAccept_TakesTheClock(t *testing.T) {
	real := 1000 * hour
	row := run(Advance(nil, Reading{Wall: real}), &real, 30*time.Minute, 72*time.Hour, true)
	during := row.Time
	row = Accept(&row, Reading{Wall: real + 72*hour + int64(time.Second), Passed: time.Second})
	if row.Time != real+72*hour+int64(time.Second) || row.Ahead != 0 || row.Since != 0 || len(row.Jumps) != 1 {
		t.Fatalf("a step forward: %+v", row)
	}
	if age := time.Duration(row.Time - Corrected(&row, during)); age > time.Minute {
		t.Errorf("a row of just before is %s old after a step forward", age)
	}

	row = Accept(&row, Reading{Wall: real})
	if row.Time != real || row.Ahead != 0 || len(row.Jumps) != 0 {
		t.Errorf("a step back: %+v", row)
	}
	if got := Corrected(&row, during); got != during {
		t.Errorf("a row of %d is of %d after a step back", during, got)
	}
}

// A time that began while the clocks were ahead, or was open then, lasts for as long by each step.
func TestEnd_LastsForAsLongByASteppedTime(t *testing.T) {
	const day = 24 * hour
	by := time.Duration(day)
	row := &cluster.ClusterTime{Jumps: []cluster.ClockJump{
		{Since: 10 * hour, At: 11 * hour, By: by},
		{Since: 40 * hour, At: 41 * hour, By: by},
	}}
	for name, c := range map[string]struct {
		began, d, want int64
	}{
		"it had ended":                        {9 * hour, hour, 10 * hour},
		"it was open":                         {9 * hour, hour + 1, 10*hour + 1 + day},
		"it was open up to the clock":         {9 * hour, 2*hour + day, 11*hour + 3*day},
		"it was open, and goes on":            {9 * hour, 2*hour + day + 1, 11*hour + day + 1},
		"it began then":                       {10*hour + 1, hour, 11*hour + 1 + day},
		"it began then, and is longer":        {11 * hour, day + 2*hour, 13*hour + 3*day},
		"it began then, and was open again":   {11 * hour, 6 * hour, 17*hour + 2*day},
		"it began before, and was open again": {9 * hour, 8 * hour, 17*hour + 2*day},
		"it began at the second":              {40*hour + 1, 30 * day, 40*hour + 1 + 31*day},
		"it began after the step":             {35 * hour, hour, 36 * hour},
	} {
		if got := End(row, c.began, time.Duration(c.d)); got != c.want {
			t.Errorf("%s: it ends at %s, want %s", name, time.Duration(got), time.Duration(c.want))
		}
		if got := End(nil, c.began, time.Duration(c.d)); got != c.began+c.d {
			t.Errorf("%s: without a cluster time it ends at %s", name, time.Duration(got))
		}
	}
}

// An operator sets the cluster time back. Each wait that began while it was ahead keeps its length.
func TestPut_SetsBackWhatWaits(t *testing.T) {
	const ahead = 30 * hour
	s := mvcc.Open(&schema.All)
	index := uint64(0)
	write := func(change func(tx *mvcc.WriteTx) error) {
		index++
		if err := s.Write(index, change); err != nil {
			t.Fatal(err)
		}
	}
	put := func(row cluster.ClusterTime) {
		write(func(tx *mvcc.WriteTx) error {
			p := &cluster.ClusterTimeRequest{Clock: row}
			if old := Of(tx); old != nil {
				p.RowIndex = old.ModifyIndex
			}
			return Put(tx, p)
		})
	}
	seconds := func(at int64) int64 { return at / int64(time.Second) }
	put(cluster.ClusterTime{Time: ahead + 2*hour})
	write(func(tx *mvcc.WriteTx) error {
		for id, until := range map[string]int64{
			"now": 0, "later": ahead + 3*hour, "early": 3 * hour,
		} {
			schema.Evals.Put(tx, &structs.Evaluation{ID: id, Status: structs.EvalPending, WaitUntil: until})
		}
		for id, n := range map[string]structs.Node{
			"lost then":   {StatusUpdatedAt: seconds(ahead + hour)},
			"lost before": {StatusUpdatedAt: seconds(hour)},
		} {
			n.ID = id
			n.Status = structs.NodeDown
			schema.Nodes.Put(tx, &n)
		}
		return nil
	})
	check := func(when string, waits, losses map[string]int64) {
		t.Helper()
		for id, want := range waits {
			if e := schema.Evals.Get(s.Read(), id); e.WaitUntil != want {
				t.Errorf("%s evaluation %q waits until %s", when, id, time.Duration(e.WaitUntil))
			}
		}
		for id, want := range losses {
			if n := schema.Nodes.Get(s.Read(), id); n.StatusUpdatedAt != seconds(want) {
				t.Errorf("%s node %q is lost at %d", when, id, n.StatusUpdatedAt)
			}
		}
	}
	put(cluster.ClusterTime{Time: ahead + 2*hour + 1})
	check("later", map[string]int64{"now": 0, "later": ahead + 3*hour, "early": 3 * hour},
		map[string]int64{"lost then": ahead + hour, "lost before": hour})
	put(cluster.ClusterTime{Time: 2*hour + 1})
	check("set back", map[string]int64{"now": 0, "later": 3 * hour, "early": 2*hour + 1},
		map[string]int64{"lost then": hour, "lost before": hour})
}

// A server is named from a minute on, until its clock is well within it. One that does not answer stays.
func TestDiffering_NamesServersUntilTheirClocksAreRight(t *testing.T) {
	clock := func(id string, ahead time.Duration) *cluster.ServerClock {
		return &cluster.ServerClock{ID: id, Name: id + ".global", Ahead: ahead}
	}
	silent := &cluster.ServerClock{ID: "a", Fault: "no answer"}
	known := []cluster.WrongClock{{ServerID: "a", Server: "a.global", Ahead: 7 * time.Minute}}
	for name, c := range map[string]struct {
		before []cluster.WrongClock
		clocks []*cluster.ServerClock
		leader time.Duration
		want   []cluster.WrongClock
	}{
		"right":                    {nil, []*cluster.ServerClock{clock("a", Tolerance)}, 0, nil},
		"ahead":                    {nil, []*cluster.ServerClock{clock("a", 7*time.Minute)}, 0, known},
		"ahead as the leader":      {nil, []*cluster.ServerClock{clock("a", 0)}, 7 * time.Minute, known},
		"right, the leader is not": {nil, []*cluster.ServerClock{clock("a", time.Hour)}, -time.Hour, nil},
		"behind": {nil, []*cluster.ServerClock{clock("a", -Tolerance-1)}, 0,
			[]cluster.WrongClock{{ServerID: "a", Server: "a.global", Ahead: -Tolerance - 1}}},
		"nearly right": {known, []*cluster.ServerClock{clock("a", Tolerance/2+1)}, 0,
			[]cluster.WrongClock{{ServerID: "a", Server: "a.global", Ahead: Tolerance/2 + 1}}},
		"right again":    {known, []*cluster.ServerClock{clock("a", Tolerance/2)}, 0, nil},
		"silent":         {nil, []*cluster.ServerClock{silent}, time.Hour, nil},
		"silent, known":  {known, []*cluster.ServerClock{silent}, 0, known},
		"removed, known": {known, nil, 0, nil},
	} {
		got := Differing(c.before, c.clocks, c.leader)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestFuture_IsAfterBothClocksAndTheTolerance(t *testing.T) {
	const tolerance = int64(Tolerance)
	for name, c := range map[string]struct {
		ahead  time.Duration // of the leader
		agreed bool          // most servers have that clock
		at     int64
		want   bool
		from   int64 // of a schedule that goes on
	}{
		"it has passed":                  {0, false, hour - 1, false, hour},
		"within the tolerance":           {0, false, hour + tolerance, false, hour},
		"after it":                       {0, false, hour + tolerance + 1, true, hour},
		"the leader's clock is ahead":    {time.Hour, false, 2*hour + tolerance, false, 2 * hour},
		"after a clock that is ahead":    {time.Hour, true, 2*hour + tolerance + 1, true, 2 * hour},
		"as most are":                    {time.Hour, true, hour + tolerance + 1, false, 2 * hour},
		"the leader's clock is behind":   {-time.Hour, false, hour + tolerance, false, hour},
		"after both, one that is behind": {-time.Hour, false, hour + tolerance + 1, true, hour},
		"the cluster time is ahead":      {-time.Hour, true, tolerance + 1, true, 0},
		"not after a right clock":        {-time.Hour, true, tolerance, false, 0},
		"near the cluster time":          {-Tolerance, true, hour + tolerance, false, hour},
	} {
		s := mvcc.Open(&schema.All)
		err := s.Write(1, func(tx *mvcc.WriteTx) error {
			row := &cluster.ClusterTime{Time: hour, Ahead: c.ahead}
			if c.agreed {
				row.Agreed = 1
			}
			schema.ClusterTimes.Put(tx, row)
			return nil
		})
		if got := Future(s.Read(), c.at, hour); got != c.want || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
		if got := GoesOn(s.Read(), hour+int64(c.ahead)); got != c.from {
			t.Errorf("%s: it goes on from %s, want %s", name, time.Duration(got), time.Duration(c.from))
		}
	}
}

// The row tells whether most servers have a clock that is far from the cluster time, ahead or behind.
func TestAdvance_KnowsSinceWhenMostServersAgree(t *testing.T) {
	for _, far := range []time.Duration{30 * time.Hour, -30 * time.Hour} {
		real := 1000 * hour
		begun := Advance(nil, Reading{Wall: real})
		for name, c := range map[string]struct {
			run  func(row cluster.ClusterTime, real int64) cluster.ClusterTime
			want bool
		}{
			"most agree": {func(row cluster.ClusterTime, real int64) cluster.ClusterTime {
				return run(row, &real, time.Minute, far, true)
			}, true},
			"most do not": {func(row cluster.ClusterTime, real int64) cluster.ClusterTime {
				row = run(row, &real, time.Minute, far, true)
				return run(row, &real, time.Minute, far, false)
			}, false},
			"it is right again": {func(row cluster.ClusterTime, real int64) cluster.ClusterTime {
				row = run(row, &real, time.Minute, far, true)
				return run(row, &real, time.Minute, 0, true)
			}, false},
			"the next leader has the clock of most": {func(row cluster.ClusterTime, real int64) cluster.ClusterTime {
				row = run(row, &real, time.Minute, far, true)
				return Advance(&row, Reading{Wall: real + int64(far), First: true})
			}, true},
			"the next leader has another clock": {func(row cluster.ClusterTime, real int64) cluster.ClusterTime {
				row = run(row, &real, time.Minute, far, true)
				return Advance(&row, Reading{Wall: real + 2*int64(far), First: true})
			}, false},
		} {
			row := c.run(begun, real)
			if got := row.Agreed != 0; got != c.want {
				t.Errorf("%s, %s ahead: agreed %t: %+v", name, far, got, row)
			}
		}
	}
}
