package workqueue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/internal/backoff"
)

// The queue of a runner holds one entry for each key whose rows ask for something. Where an entry is says what it
// waits for:
//
//	later    its time
//	ready    its turn: in the strand of its serial within its group
//	parked   one of the signals that it awaits
//	working  the end of its Step
//
// A group has at hand the strands whose serials have no step in work, the best first. So what is next is found, and
// an entry brought from one place to another, in a time that hardly depends on how many there are.
type queue[K comparable] struct {
	retry   backoff.Backoff
	entries map[K]*entry[K]
	groups  map[string]*group[K]
	serials map[string]*serial[K]
	later   ordered[*entry[K]]
	parked  map[string]map[*entry[K]]struct{} // by what they await
	hungry  []*group[K]                       // in which perhaps something can be begun
	working int
	arrived uint64 // counts what became ready
}

type place int

const (
	nowhere place = iota
	later
	ready
	parked
	working
)

// entry is what a queue knows of a key.
type entry[K comparable] struct {
	key     K
	is      Step // as it was read last, without how it is taken
	past    attempt
	place   place
	at      int // within the heap that it is in
	arrived uint64
	strand  *strand[K] // of one that is ready or working
}

// attempt is what became of a step the last time, if its rows ask for it again.
type attempt struct {
	op       string
	version  uint64
	failures int // 0: there was none
	err      error
	at       time.Time
}

// strand holds the ready entries of one serial within a group.
type strand[K comparable] struct {
	group  *group[K]
	serial *serial[K]
	ready  ordered[*entry[K]]
	at     int // within its group; -1 when it is not at hand
}

type serial[K comparable] struct {
	name    string // "" of one that has one entry
	busy    bool
	strands []*strand[K]
}

type group[K comparable] struct {
	name    string
	working int
	known   int                 // strands there are, at hand or not
	strands ordered[*strand[K]] // at hand
	hungry  bool
}

func newQueue[K comparable](retry backoff.Backoff) *queue[K] {
	q := &queue[K]{retry: retry, entries: map[K]*entry[K]{}, groups: map[string]*group[K]{}, serials: map[string]*serial[K]{},
		parked: map[string]map[*entry[K]]struct{}{}}
	q.later = ordered[*entry[K]]{
		less:  func(a, b *entry[K]) bool { return a.is.Due.Before(b.is.Due) },
		moved: func(e *entry[K], at int) { e.at = at },
	}
	return q
}

// put brings a key to where its rows, read just now, say that it belongs. What is in work stays so; what has its
// turn keeps it.
func (q *queue[K]) put(key K, s Step, now time.Time) *entry[K] {
	e := q.entries[key]
	switch {
	case e == nil && s.Op == "":
		return nil
	case e == nil:
		e = &entry[K]{key: key}
		q.entries[key] = e
	case e.place == working:
		return e
	}
	if e.past.op != s.Op || len(s.Awaits) > 0 {
		e.past = attempt{}
	}
	s.Due, s.Act = e.past.again(s, q.retry), nil
	stays := e.place == ready && !s.Due.After(now) && len(s.Awaits) == 0 && s.sameTurn(e.is)
	if !stays {
		q.take(e)
	}
	e.is = s
	switch {
	case stays:
	case s.Op == "":
		delete(q.entries, key)
	case len(s.Awaits) > 0:
		q.park(e)
	case s.Due.After(now):
		e.place = later
		q.later.add(e)
	default:
		q.ready(e)
	}
	return e
}

// again is from when on a step may be taken. One that failed, or that was taken and is asked for again though
// nothing about it has changed, waits longer each time.
func (a attempt) again(s Step, retry backoff.Backoff) time.Time {
	if a.failures == 0 || a.err == nil && a.version != s.Version {
		return s.Due
	}
	if again := a.at.Add(retry.Delay(a.failures)); again.After(s.Due) {
		return again
	}
	return s.Due
}

// take takes an entry from where it waits.
func (q *queue[K]) take(e *entry[K]) {
	switch e.place {
	case later:
		q.later.drop(e.at)
	case ready:
		l := e.strand
		l.ready.drop(e.at)
		q.list(l)
	case parked:
		for _, signal := range e.is.Awaits {
			delete(q.parked[signal], e)
			if len(q.parked[signal]) == 0 {
				delete(q.parked, signal)
			}
		}
	}
	e.place, e.strand = nowhere, nil
}

func (q *queue[K]) park(e *entry[K]) {
	e.place = parked
	for _, signal := range e.is.Awaits {
		if q.parked[signal] == nil {
			q.parked[signal] = map[*entry[K]]struct{}{}
		}
		q.parked[signal][e] = struct{}{}
	}
}

// awaiting lists who waits for a signal, in the order in which they came.
func (q *queue[K]) awaiting(signal string) []*entry[K] {
	return slices.SortedFunc(maps.Keys(q.parked[signal]), func(a, b *entry[K]) int { return cmp.Compare(a.arrived, b.arrived) })
}

func (q *queue[K]) ready(e *entry[K]) {
	q.arrived++
	e.place, e.arrived, e.strand = ready, q.arrived, q.strandOf(e.is.Group, e.is.Serial)
	e.strand.ready.add(e)
	q.list(e.strand)
}

// strandOf is the strand of a serial within a group; each entry without a serial has one by itself.
func (q *queue[K]) strandOf(inGroup, ofSerial string) *strand[K] {
	g, s := q.groups[inGroup], q.serials[ofSerial]
	if g == nil {
		g = &group[K]{name: inGroup}
		g.strands.less = func(a, b *strand[K]) bool { return before(a.ready.all[0], b.ready.all[0]) }
		g.strands.moved = func(l *strand[K], at int) { l.at = at }
		q.groups[inGroup] = g
	}
	if s == nil {
		s = &serial[K]{name: ofSerial}
		if ofSerial != "" {
			q.serials[ofSerial] = s
		}
	}
	if i := slices.IndexFunc(s.strands, func(l *strand[K]) bool { return l.group == g }); i >= 0 {
		return s.strands[i]
	}
	l := &strand[K]{group: g, serial: s, at: -1}
	l.ready.less = func(a, b *entry[K]) bool {
		return a.is.rankedBefore(b.is) || !b.is.rankedBefore(a.is) && a.arrived < b.arrived
	}
	l.ready.moved = func(e *entry[K], at int) { e.at = at }
	s.strands = append(s.strands, l)
	g.known++
	return l
}

// before is the order of what is first in its strand: what has not failed, then who came first.
func before[K comparable](a, b *entry[K]) bool {
	if a.is.Failed != b.is.Failed {
		return b.is.Failed
	}
	return a.arrived < b.arrived
}

// ripen makes ready what has come due.
func (q *queue[K]) ripen(now time.Time) {
	for len(q.later.all) > 0 && !q.later.all[0].is.Due.After(now) {
		e := q.later.all[0]
		q.take(e)
		q.ready(e)
	}
}

// nextDue is when the next comes due; zero if nothing waits for its time.
func (q *queue[K]) nextDue() time.Time {
	if len(q.later.all) == 0 {
		return time.Time{}
	}
	return q.later.all[0].is.Due
}

// first is the entry of the group whose turn it is, nil if there is none.
func (g *group[K]) first() *entry[K] {
	if len(g.strands.all) == 0 {
		return nil
	}
	return g.strands.all[0].ready.all[0]
}

// begin takes an entry into work.
func (q *queue[K]) begin(e *entry[K]) {
	l := e.strand
	l.ready.drop(e.at)
	e.place = working
	q.working++
	l.group.working++
	l.serial.busy = true
	q.relist(l.serial)
}

// end notes what became of an entry that was in work. It is then nowhere, until it is put.
func (q *queue[K]) end(e *entry[K], a attempt) {
	if before := e.past; before.op == a.op && (a.err != nil || before.version == a.version) {
		a.failures += before.failures
	}
	l := e.strand
	e.past, e.place, e.strand = a, nowhere, nil
	q.working--
	l.group.working--
	l.serial.busy = false
	q.hunger(l.group)
	q.relist(l.serial)
	q.forget(l.serial, l.group)
}

// relist is list for all strands of a serial, some of which may go.
func (q *queue[K]) relist(s *serial[K]) {
	for _, l := range slices.Clone(s.strands) {
		q.list(l)
	}
}

// list brings a strand to hand in its group, or to its place there, or away.
func (q *queue[K]) list(l *strand[K]) {
	g, able := l.group, len(l.ready.all) > 0 && !l.serial.busy
	switch {
	case able && l.at >= 0:
		g.strands.fix(l.at)
	case able:
		g.strands.add(l)
	case l.at >= 0:
		g.strands.drop(l.at)
		l.at = -1
	}
	if able {
		q.hunger(g)
	}
	if len(l.ready.all) == 0 {
		l.serial.strands = slices.DeleteFunc(l.serial.strands, func(other *strand[K]) bool { return other == l })
		g.known--
		q.forget(l.serial, g)
	}
}

func (q *queue[K]) hunger(g *group[K]) {
	if !g.hungry {
		g.hungry = true
		q.hungry = append(q.hungry, g)
	}
}

// forget drops a serial and a group in which nothing is any more.
func (q *queue[K]) forget(s *serial[K], g *group[K]) {
	if !s.busy && len(s.strands) == 0 && q.serials[s.name] == s {
		delete(q.serials, s.name)
	}
	if g.working == 0 && g.known == 0 && q.groups[g.name] == g {
		delete(q.groups, g.name)
	}
}
