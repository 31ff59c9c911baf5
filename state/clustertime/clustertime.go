// Package clustertime is the time by which the servers count the ages that decide irreversible acts: the
// deletion of volumes, snapshots and rows, forced drains, failed deployments, lost allocations. Any wall
// clock may be wrong for a minute, and what it deletes then is gone for good.
//
// The time is a row of the state. The leader advances it by CLOCK_BOOTTIME, which nobody sets and which
// counts a suspend. These hold:
//
//   - The time never goes back, but by the word of an operator.
//   - Within a minute of the leader's wall clock it approaches that one: it runs faster or slower by a tenth
//     at most. A new leader takes over that it is behind by up to a minute at once: the last entry is that
//     old.
//   - If the wall clock is ahead by more, it was set, or the servers were off. The time goes on as before. It
//     follows after a quarantine in which most servers agree with the leader's clock at each look.
//   - If the wall clock is behind by more, the time goes on as before. While most servers agree with that
//     clock, it runs slower by a tenth: it has followed clocks that were wrong.
//   - The times of log entries are of this clock. A row from the future, which another version has stamped,
//     is new.
//   - A step to the wall clock ages no row that was written while the clocks were ahead, and no deadline that
//     was open passes by it: Corrected, Deadline and End.
//
// Credentials are denied by the wall clock of each server, and that ends when the clock is right: no act by
// the wall clock deletes them. Schedules follow the wall clock, too.
package clustertime

import (
	"slices"
	"time"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

const (
	// Tolerance is the difference of two clocks that are both right.
	Tolerance = time.Minute
	// approach is the part of the time that has passed by which the cluster time may run faster or slower.
	approach = 10
	// keptJumps is the number of steps that the row remembers. There are a few in a year.
	keptJumps = 16
)

// Of returns the row, nil if no leader has begun the cluster time.
func Of(tx mvcc.Reader) *cluster.ClusterTime {
	return schema.ClusterTimes.Get(tx, schema.OnlyClusterTime)
}

// Wrong returns the servers whose wall clocks differ from the cluster time.
func Wrong(tx mvcc.Reader) (wrong []cluster.WrongClock) {
	for c := range schema.WrongClocks.Scan(tx) {
		wrong = append(wrong, *c)
	}
	return wrong
}

// Reading is one look of the leader at its clocks.
type Reading struct {
	Wall       int64         // UnixNano
	Passed     time.Duration // by CLOCK_BOOTTIME since the row was written
	First      bool          // of a leader, which has not asked the others yet
	Agreed     bool          // most servers have the wall clock of the leader
	Quarantine time.Duration
	// Newest is the time of the newest row, 0 for none. It counts for the first row of the cluster time only.
	Newest int64
}

// Far reports whether a difference between the wall clock and the cluster time needs the word of the others.
func Far(ahead time.Duration) bool { return ahead.Abs() > Tolerance }

// Advance returns the row that follows old, nil for none, by a reading. It keeps no part of old that it
// changes.
func Advance(old *cluster.ClusterTime, r Reading) cluster.ClusterTime {
	if old == nil {
		old = &cluster.ClusterTime{Time: begin(r)}
	}

	row := *old
	row.Indexes = structs.Indexes{}
	row.Time += int64(max(r.Passed, 0))
	ahead := time.Duration(r.Wall - row.Time)
	moved := Far(ahead - old.Ahead) // the clock was set once more
	if ahead <= Tolerance {
		row.Since = 0
		gain := approached(ahead, r)
		row.Time += int64(gain)
		row.Ahead = ahead - gain
		row.Agreed = agreedSince(&row, r, moved)
		return row
	}

	if row.Since == 0 {
		row.Since = old.Time
		moved = true
	}
	row.Ahead = ahead
	row.Agreed = agreedSince(&row, r, moved)
	if r.First {
		return row
	}
	if row.Agreed != 0 && row.Time-row.Agreed >= int64(r.Quarantine) {
		return jump(row, r.Wall)
	}
	return row
}

// agreedSince returns since when most servers have the clock of the leader, 0 if they do not, or if that
// clock is near the cluster time. row has the former answer.
func agreedSince(row *cluster.ClusterTime, r Reading, moved bool) int64 {
	switch {
	case !Far(row.Ahead):
		return 0
	case r.First && !moved:
		return row.Agreed
	case r.First, !r.Agreed:
		return 0
	case row.Agreed == 0 || moved:
		return row.Time
	}
	return row.Agreed
}

// Accept returns the row that follows old by the word of an operator that a wall clock is right. It may set
// the time back: what was written before then is as new as can be.
func Accept(old *cluster.ClusterTime, r Reading) cluster.ClusterTime {
	row := *old
	row.Indexes = structs.Indexes{}
	row.Time += int64(max(r.Passed, 0))
	if r.Wall > row.Time {
		if row.Since == 0 {
			row.Since = old.Time
		}
		return jump(row, r.Wall)
	}
	// Rows that are written from here on have times of the former count: no step changes them.
	row.Jumps = slices.DeleteFunc(slices.Clone(row.Jumps), func(j cluster.ClockJump) bool {
		return j.At+int64(j.By) > r.Wall
	})
	row.Time = r.Wall
	row.Ahead = 0
	row.Since = 0
	row.Agreed = 0
	return row
}

// Differing returns the servers whose wall clocks differ from a cluster time. ahead is by how much the
// leader's is ahead of it. A server that differed before stays until its clock is well within the tolerance,
// and while it does not tell it.
func Differing(
	before []cluster.WrongClock,
	clocks []*cluster.ServerClock,
	ahead time.Duration,
) (wrong []cluster.WrongClock) {
	for _, c := range clocks {
		i := slices.IndexFunc(before, func(w cluster.WrongClock) bool { return w.ServerID == c.ID })
		most := Tolerance
		if i >= 0 {
			most = Tolerance / 2
		}
		differs := ahead + c.Ahead
		switch {
		case c.Fault != "" && i >= 0:
			wrong = append(wrong, before[i])
		case c.Fault == "" && differs.Abs() > most:
			wrong = append(wrong, cluster.WrongClock{ServerID: c.ID, Server: c.Name, Ahead: differs})
		}
	}
	return wrong
}

// begin returns the first cluster time. It is the wall's in a new cluster, or if most servers agree with it.
// Otherwise it is the newest row's: the wall clock of this leader may be wrong.
func begin(r Reading) int64 {
	if r.Newest == 0 || r.Agreed {
		return r.Wall
	}
	return min(r.Wall, r.Newest)
}

// approached returns by how much the time approaches a wall clock that is ahead, or behind, of it.
func approached(ahead time.Duration, r Reading) time.Duration {
	most := max(r.Passed, 0) / approach
	switch {
	case r.First:
		return max(ahead, 0)
	case Far(ahead) && !r.Agreed:
		return 0
	}
	return max(min(ahead, most), -most)
}

// jump steps a row to a wall clock that is ahead.
func jump(row cluster.ClusterTime, wall int64) cluster.ClusterTime {
	row.Jumps = append(slices.Clone(row.Jumps), cluster.ClockJump{
		Since: row.Since,
		At:    row.Time,
		By:    time.Duration(wall - row.Time),
	})
	row.Jumps = row.Jumps[max(0, len(row.Jumps)-keptJumps):]
	row.Time = wall
	row.Ahead = 0
	row.Since = 0
	row.Agreed = 0
	return row
}

// Corrected returns the time of a row in the present count of the cluster time, nil for none: one that was
// written while the clocks were ahead, and before the cluster time followed them, is as much later.
func Corrected(row *cluster.ClusterTime, stamp int64) int64 {
	if row == nil {
		return stamp
	}
	for _, j := range row.Jumps {
		if stamp > j.Since && stamp <= j.At {
			stamp += int64(j.By)
		}
	}
	return stamp
}

// Deadline returns a deadline in the present count of the cluster time, nil for none: one that was open when
// the clocks were found to be ahead, and that the step has passed, is as much later.
func Deadline(row *cluster.ClusterTime, at int64) int64 {
	if row == nil {
		return at
	}
	for _, j := range row.Jumps {
		if at > j.Since && at <= j.At+int64(j.By) {
			at += int64(j.By)
		}
	}
	return at
}

// End returns the end of a time that began at the time of a row, in the present count of the cluster time,
// nil for none. A step that corrects the row, or passes the end while it was open, moves it.
func End(row *cluster.ClusterTime, began int64, d time.Duration) int64 {
	end := began + int64(d)
	if row == nil {
		return end
	}
	for _, j := range row.Jumps {
		corrected := began > j.Since && began <= j.At // by this step only: the next one begins later
		if corrected || end > j.Since && end <= j.At+int64(j.By) {
			end += int64(j.By)
		}
	}
	return end
}

// Wall returns the time of the leader's wall clock at an entry, which has the cluster time now: schedules
// follow it.
func Wall(tx mvcc.Reader, now int64) int64 {
	row := Of(tx)
	if row == nil {
		return now
	}
	return now + int64(row.Ahead)
}

// Future reports whether a time that a schedule has stored is in the future of the leader's wall clock and of
// the cluster time, at an entry that has the cluster time now: a leader whose clock was ahead has stored it.
// It counts for nothing, or the schedule would rest until then. The cluster time does not count if it has
// followed clocks that were wrong.
func Future(tx mvcc.Reader, at, now int64) bool {
	at -= int64(Tolerance)
	return at > Wall(tx, now) && (at > now || isAhead(Of(tx)))
}

// isAhead reports whether the cluster time has followed clocks that were wrong: the clock of the leader is
// behind it, and most servers have that clock.
func isAhead(row *cluster.ClusterTime) bool {
	return row != nil && row.Ahead < -Tolerance && row.Agreed != 0
}

// GoesOn returns the time from which a schedule goes on whose last time is in the Future, by the wall clock
// of the leader. That clock may be behind, so the cluster time counts if it is later and right.
func GoesOn(tx mvcc.Reader, wall int64) int64 {
	if isAhead(Of(tx)) {
		return wall
	}
	return Later(tx, wall)
}

// Earlier returns the earlier one of a wall clock and the cluster time. The rows of credentials that have
// ended by both are deleted.
func Earlier(tx mvcc.Reader, wall int64) int64 {
	row := Of(tx)
	if row == nil {
		return wall
	}
	return min(wall, row.Time)
}

// Later returns the later one of a wall clock and the cluster time. A credential that begins at Earlier and
// ends some time after Later is good by right clocks for that time at least, whichever of the two is wrong.
func Later(tx mvcc.Reader, wall int64) int64 {
	row := Of(tx)
	if row == nil {
		return wall
	}
	return max(wall, row.Time)
}

// Newest returns the newest time of the rows of evaluations, allocations and nodes, 0 for none. Times after a
// wall clock do not count.
func Newest(tx mvcc.Reader, wall int64) (newest int64) {
	see := func(at int64) {
		if at <= wall {
			newest = max(newest, at)
		}
	}
	for e := range schema.Evals.Scan(tx) {
		see(e.ModifyTime)
	}
	for a := range schema.Allocs.Scan(tx) {
		see(a.ModifyTime)
	}
	for n := range schema.Nodes.Scan(tx) {
		see(n.StatusUpdatedAt * int64(time.Second))
	}
	return newest
}

// Put stores the row of an entry. An entry that does not follow the stored row comes from a former leader: it
// changes nothing.
func Put(tx *mvcc.WriteTx, p *cluster.ClusterTimeRequest) error {
	nameless := func(w cluster.WrongClock) bool { return w.ServerID == "" || w.Server == "" }
	if slices.ContainsFunc(p.Wrong, nameless) {
		return structs.Invalidf("a clock that differs has no server")
	}
	old := Of(tx)
	if old == nil && p.RowIndex == 0 || old != nil && old.ModifyIndex == p.RowIndex {
		row := p.Clock
		schema.ClusterTimes.Put(tx, &row)
		putWrong(tx, p.Wrong)
		if old != nil && row.Time < old.Time {
			setBack(tx, row.Time, time.Duration(old.Time-row.Time))
		}
	}
	return nil
}

// setBack sets back the waits of evaluations and the losses of nodes with the cluster time: they would last
// for longer by that. An evaluation that comes too early is followed by another one.
func setBack(tx *mvcc.WriteTx, now int64, by time.Duration) {
	for _, e := range slices.Collect(schema.EvalsInOrder.Scan(tx, schema.LaterEval)) {
		moved := e.Copy()
		moved.WaitUntil = max(now, e.WaitUntil-int64(by))
		schema.Evals.Put(tx, moved)
	}
	for _, n := range slices.Collect(schema.Nodes.Scan(tx)) {
		if n.StatusUpdatedAt*int64(time.Second) > now {
			moved := *n
			moved.StatusUpdatedAt -= int64(by / time.Second)
			schema.Nodes.Put(tx, &moved)
		}
	}
}

// putWrong stores the servers whose clocks differ. A row changes only with its clock, so that not each entry
// makes an event.
func putWrong(tx *mvcc.WriteTx, now []cluster.WrongClock) {
	before := Wrong(tx)
	for _, c := range now {
		i := slices.IndexFunc(before, func(w cluster.WrongClock) bool { return w.ServerID == c.ServerID })
		if i < 0 || before[i].Server != c.Server || Far(before[i].Ahead-c.Ahead) {
			schema.WrongClocks.Put(tx, &c)
		}
	}
	for _, c := range before {
		if !slices.ContainsFunc(now, func(w cluster.WrongClock) bool { return w.ServerID == c.ServerID }) {
			schema.WrongClocks.Delete(tx, &c)
		}
	}
}

// ForgetStored forgets what the servers are known to have stored. An archive, or an operator who replaces the
// members, may put them back to an earlier state on purpose.
func ForgetStored(tx *mvcc.WriteTx) {
	row := Of(tx)
	if row == nil || len(row.Stored) == 0 {
		return
	}
	changed := *row
	changed.Stored = nil
	schema.ClusterTimes.Put(tx, &changed)
}
