package clustertime

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/structs/cluster"
)

// servers is a cluster whose servers have wrong clocks, drift, are set in both ways, and are all off at
// times. It draws what happens. Its own clock has the time that has passed.
type servers struct {
	t     *rapid.T
	real  int64           // the time that has passed
	ahead []time.Duration // of the wall clocks
	drift []time.Duration // of the wall clocks in an hour
	leads int
	row   *cluster.ClusterTime
	// most is the most by which the cluster time may be ahead of the time that has passed since it began:
	// what it approached, and the steps that most servers have agreed with for the quarantine.
	most  time.Duration
	begun int64
	rows  []written
	// differs is the time before the clock of the leader was ahead, 0 while it is not, and stepped the same of
	// the last step. Rows of after that are aged by no step.
	differs, stepped int64
}

// written is a row, and the time that had passed.
type written struct{ stamp, real int64 }

// clocks are the errors of wall clocks.
var clocks = []time.Duration{
	0, 0, time.Second, -time.Second, 40 * time.Second, -40 * time.Second, 2 * time.Minute, -2 * time.Minute,
	30 * time.Hour, -30 * time.Hour, 400 * 24 * time.Hour, -400 * 24 * time.Hour,
}

// drifts are the errors of wall clocks in an hour.
var drifts = []time.Duration{0, 0, time.Second, -time.Minute}

func newServers(t *rapid.T) *servers {
	s := &servers{t: t, real: int64(20 * 365 * 24 * time.Hour)}
	for range rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "servers") {
		s.ahead = append(s.ahead, rapid.SampledFrom(clocks).Draw(t, "ahead"))
		s.drift = append(s.drift, rapid.SampledFrom(drifts).Draw(t, "drift"))
	}
	return s
}

func (s *servers) wall() int64 { return s.real + int64(s.ahead[s.leads]) }

func (s *servers) agreed() bool {
	same := 0
	for _, ahead := range s.ahead {
		if (ahead - s.ahead[s.leads]).Abs() <= Tolerance {
			same++
		}
	}
	return 2*same > len(s.ahead)
}

// pass lets time pass. counted is the part of it that the leader has seen.
func (s *servers) pass(d time.Duration) {
	s.real += int64(d)
	for n := range s.ahead {
		s.ahead[n] += time.Duration(float64(s.drift[n]) * d.Hours())
	}
}

func (s *servers) advance(passed time.Duration, first bool) {
	before := s.row
	row := Advance(before, Reading{
		Wall:       s.wall(),
		Passed:     passed,
		First:      first,
		Agreed:     s.agreed(),
		Quarantine: time.Hour,
	})
	s.row = &row
	if before == nil {
		s.begun = row.Time - s.real
		return
	}
	if row.Time < before.Time+int64(passed)-int64(passed/approach) {
		s.t.Fatalf("the time goes from %d to %d in %s", before.Time, row.Time, passed)
	}
	s.most += passed / approach
	if first {
		s.most += Tolerance
	}
	switch n := len(row.Jumps); {
	case row.Since != 0 && before.Since == 0:
		s.differs = before.Time
	case n > 0 && !slices.Equal(row.Jumps, before.Jumps):
		s.jumped(before, row.Jumps[n-1])
		s.stepped = s.differs
		s.differs = 0
	case row.Since == 0:
		s.differs = 0
	}
}

// jumped checks a step: most servers have agreed for the quarantine. It ages no row that was written while
// the clocks were ahead.
func (s *servers) jumped(before *cluster.ClusterTime, j cluster.ClockJump) {
	s.most += j.By
	if !s.agreed() || before.Agreed == 0 || j.At-before.Agreed < int64(time.Hour) {
		s.t.Fatalf("a step of %s, agreed since %s", j.By, time.Duration(j.At-before.Agreed))
	}
}

// check compares the ages of rows with the time that has passed.
func (s *servers) check() {
	if ahead := time.Duration(s.row.Time - s.real - s.begun); ahead > s.most {
		s.t.Fatalf("the cluster time is %s ahead, at most %s are right", ahead, s.most)
	}
	for _, w := range s.rows {
		if w.stamp <= max(s.differs, s.stepped) {
			continue
		}
		age := time.Duration(s.row.Time - Corrected(s.row, w.stamp))
		// Since that row there were at most the gains of leaders, and no step.
		if most := time.Duration(s.real-w.real)*11/10 + s.gains(w); age > most {
			s.t.Fatalf("a row is %s old after %s", age, most)
		}
	}
}

// gains is what new leaders may have added since a row was written.
func (s *servers) gains(w written) time.Duration {
	leaders := 0
	for _, other := range s.rows {
		if other.real >= w.real {
			leaders++ // a row is written at the begin of each leadership
		}
	}
	return time.Duration(leaders+1) * Tolerance
}

// simulate runs a cluster for some weeks.
func simulate(t *rapid.T) {
	s := newServers(t)
	s.advance(0, true)
	for range rapid.IntRange(1, 60).Draw(t, "acts") {
		switch rapid.SampledFrom([]string{"pass", "pass", "pass", "set", "set all", "lead", "off"}).Draw(t, "act") {
		case "pass":
			for range rapid.IntRange(1, 300).Draw(t, "looks") {
				s.pass(20 * time.Second)
				s.advance(20*time.Second, false)
			}
		case "set":
			n := rapid.IntRange(0, len(s.ahead)-1).Draw(t, "server")
			s.ahead[n] = rapid.SampledFrom(clocks).Draw(t, "ahead")
		case "set all":
			to := rapid.SampledFrom(clocks).Draw(t, "ahead")
			for n := range s.ahead {
				s.ahead[n] = to
			}
		case "lead":
			s.leads = rapid.IntRange(0, len(s.ahead)-1).Draw(t, "leads")
			s.pass(15 * time.Second)
			s.advance(15*time.Second, true)
			s.rows = append(s.rows, written{s.row.Time, s.real})
		case "off":
			s.pass(rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 7 * 24 * time.Hour}).Draw(t, "off"))
			s.advance(0, true)
		}
		s.check()
	}
}

// Wrong clocks at the beginning, steps in both ways, drift, other leaders and times without servers: the time
// does not go back, ages nothing by a clock that most servers do not have for the quarantine, and ages no row
// that was written while the clocks were ahead.
func TestAdvance_SimulatedClocks(t *testing.T) { rapid.Check(t, simulate) }
