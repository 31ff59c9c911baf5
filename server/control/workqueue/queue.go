package workqueue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/internal/backoff"
)

// queue has one entry for each key whose rows need a step. The phase of an entry shows what it waits for:
//
//	later    its time
//	ready    its position in its serial queue
//	waiting  one of the signals that it awaits
//	held     the end of a step of its group, because another of its serials has a step in work, or because
//	         the long steps in work are as many as may be
//	working  the end of its step
//
// A group keeps a heap of its serial queues that have no step in work. So the time to find the next step, and
// to move an entry from one phase to another, hardly depends on the number of entries.
type queue struct {
	retry    backoff.Backoff
	entries  map[Key]*entry
	groups   map[string]*group
	later    indexedHeap[*entry]
	waiting  map[string]map[*entry]struct{} // by the signals that they await
	runnable []*group                       // groups in which a step can perhaps begin
	working  int
	arrived  uint64 // the last number that an entry got
}

type phase int

const (
	noPhase phase = iota
	later
	ready
	waiting
	held
	working
)

// entry is a key with its step and its phase.
type entry struct {
	key     Key
	step    Step // as it was read last, without Act
	last    attempt
	phase   phase
	index   int // in the heap that it is in
	arrived uint64
	since   time.Time    // when it began to wait as counts reports; zero: it does not
	serial  *serialQueue // of an entry that is ready or working
}

// attempt is the last step of a key. It is kept while the rows need the same step.
type attempt struct {
	op      string
	version uint64
	failed  bool
	tries   int // in a row that failed or changed nothing; 0: there was no attempt
	at      time.Time
}

// group bounds the steps that are in work at once.
type group struct {
	name     string
	working  int
	long     int // of those in work
	serials  map[string]*serialQueue
	runnable indexedHeap[*serialQueue] // not empty and not busy
	listed   bool                      // in queue.runnable
	held     []*entry                  // until a step ends
	heldLong []*entry                  // until a long step ends, or the bound changes
}

// serialQueue holds the ready entries of one serial. While it is busy, one step of the serial is in work.
type serialQueue struct {
	name  string
	group *group
	ready indexedHeap[*entry]
	busy  bool
	index int // in group.runnable; -1: not there
}

func newQueue(retry backoff.Backoff) *queue {
	q := &queue{
		retry:   retry,
		entries: map[Key]*entry{},
		groups:  map[string]*group{},
		waiting: map[string]map[*entry]struct{}{},
	}
	q.later.less = func(a, b *entry) bool {
		return a.step.Due.Before(b.step.Due)
	}
	return q
}

func (e *entry) setIndex(index int) {
	e.index = index
}
func (s *serialQueue) setIndex(index int) {
	s.index = index
}

// update moves a key to the phase that s, its newest step, requires. A step in work stays in work. A ready
// one keeps its position.
func (q *queue) update(key Key, s Step, now time.Time) {
	e := q.entries[key]
	if e == nil {
		if s.Op == "" {
			return
		}

		e = &entry{key: key}
		q.entries[key] = e
		q.numberArrival(e)
	}

	// The end of the step reads the key again, and then on the newest rows.
	if e.phase == working {
		return
	}

	// Another operation begins without failures. So does one that waited: what it lacked is what made it
	// fail.
	if e.last.op != s.Op || len(s.Awaits) > 0 {
		e.last = attempt{}
	}

	// Act holds rows. startSteps gets it from a new read.
	s.Act = nil
	s.Due = e.last.delay(s, q.retry)
	if s.Due.After(now) {
		s.Due = now.Add(s.Due.Sub(now)) // on the monotonic clock, so that no step of the wall clock delays it
	}
	delayed := len(s.Awaits) > 0 || s.Due.After(now)
	if e.phase == ready &&
		!delayed &&
		s.sameOrder(e.step) {
		e.step = s
		return
	}

	// From here on the entry has no phase, until one of the cases gives it one.
	q.remove(e)
	e.step = s
	switch {
	case s.Op == "":
		delete(q.entries, key)
	case len(s.Awaits) > 0:
		q.makeWaiting(e)
	case delayed:
		e.phase = later
		q.later.addItem(e)
	default:
		q.makeReady(e)
	}

	e.noteWait(now)
}

// sameOrder reports whether a ready step keeps the position of another one.
func (s Step) sameOrder(other Step) bool {
	return s.Op != "" && s.Group == other.Group &&
		s.Serial == other.Serial &&
		s.Rank == other.Rank &&
		s.Failed == other.Failed
}

// delay returns the time from which a step may be taken. If the last attempt failed, or succeeded and changed
// nothing, that is later each time.
func (a attempt) delay(s Step, retry backoff.Backoff) time.Time {
	if a.tries == 0 ||
		!a.failed && a.version != s.Version {
		return s.Due
	}
	again := a.at.Add(retry.Delay(a.tries))
	if again.After(s.Due) {
		return again
	}
	return s.Due
}

// remove takes an entry out of its phase.
func (q *queue) remove(e *entry) {
	switch e.phase {
	case later:
		q.later.remove(e.index)
	case ready:
		s := e.serial
		s.ready.remove(e.index)
		q.reposition(s)
	case held:
		g := q.groups[e.step.Group]
		isEntry := func(other *entry) bool { return other == e }
		g.held = slices.DeleteFunc(g.held, isEntry)
		g.heldLong = slices.DeleteFunc(g.heldLong, isEntry)
	case waiting:
		for _, signal := range e.step.Awaits {
			delete(q.waiting[signal], e)
			if len(q.waiting[signal]) == 0 {
				delete(q.waiting, signal)
			}
		}
	}

	e.phase = noPhase
	e.serial = nil
}

// makeWaiting lists the entry under each of its signals.
func (q *queue) makeWaiting(e *entry) {
	e.phase = waiting
	for _, signal := range e.step.Awaits {
		if q.waiting[signal] == nil {
			q.waiting[signal] = map[*entry]struct{}{}
		}
		q.waiting[signal][e] = struct{}{}
	}
}

// awaiting returns the entries that await a signal, in order of arrival.
func (q *queue) awaiting(signal string) []*entry {
	entries := maps.Keys(q.waiting[signal])
	return slices.SortedFunc(entries, func(a, b *entry) int {
		return cmp.Compare(a.arrived, b.arrived)
	})
}

// numberArrival puts an entry behind all that have arrived.
func (q *queue) numberArrival(e *entry) {
	q.arrived++
	e.arrived = q.arrived
}

// makeReady puts the entry behind the ready ones of its serial.
func (q *queue) makeReady(e *entry) {
	q.numberArrival(e)
	q.enqueue(e)
}

// enqueue makes an entry ready at the position of its arrival.
func (q *queue) enqueue(e *entry) {
	e.phase = ready
	e.serial = q.serialOf(e)
	e.serial.ready.addItem(e)
	q.reposition(e.serial)
}

// serialOf returns the queue of an entry's serial. An entry without a serial has one by itself.
func (q *queue) serialOf(e *entry) *serialQueue {
	g := q.groups[e.step.Group]
	if g == nil {
		g = &group{
			name:    e.step.Group,
			serials: map[string]*serialQueue{},
		}

		g.runnable.less = func(a, b *serialQueue) bool {
			return a.ready.items[0].before(b.ready.items[0])
		}

		q.groups[g.name] = g
	}

	return g.serialNamed(cmp.Or(e.step.Serial, keyText(e.key)))
}

// serialNamed returns a serial queue of the group, which may be new and empty.
func (g *group) serialNamed(name string) *serialQueue {
	s := g.serials[name]
	if s == nil {
		s = &serialQueue{
			name:  name,
			group: g,
			index: -1,
		}

		s.ready.less = (*entry).beforeInSerial
		g.serials[name] = s
	}

	return s
}

// before is the order of entries of different serials: by failure, then by arrival.
func (e *entry) before(other *entry) bool {
	if e.step.Failed != other.step.Failed {
		return other.step.Failed
	}
	return e.arrived < other.arrived
}

// beforeInSerial is the order of entries of one serial: by failure, by rank, then by arrival.
func (e *entry) beforeInSerial(other *entry) bool {
	if e.step.Failed == other.step.Failed &&
		e.step.Rank != other.step.Rank {
		return e.step.Rank < other.step.Rank
	}
	return e.before(other)
}

// promoteDue makes the entries ready whose time has come.
func (q *queue) promoteDue(now time.Time) {
	for {
		e := q.later.first()
		if e == nil || e.step.Due.After(now) {
			return
		}
		q.remove(e)
		q.makeReady(e)
		e.noteWait(now)
	}
}

// nextDue returns when the next entry comes due; zero if none waits for its time.
func (q *queue) nextDue() time.Time {
	e := q.later.first()
	if e == nil {
		return time.Time{}
	}
	return e.step.Due
}

// first returns the next entry of the group, nil if there is none.
func (g *group) first() *entry {
	s := g.runnable.first()
	if s == nil {
		return nil
	}
	return s.ready.first()
}

// firstFree returns the next entry of the group that can begin, nil if there is none. most is the number of
// its steps that may be in work. firstFree holds the entries before it: entries of which another serial is
// busy, and the long ones while long steps have half of the places.
func (q *queue) firstFree(g *group, most int) *entry {
	for {
		e := g.first()
		switch {
		case e == nil:
			return nil
		case e.step.Long && g.long >= max(1, most/2):
			q.remove(e)
			e.phase = held
			g.heldLong = append(g.heldLong, e)
		case g.busyAny(e.step.Others):
			q.remove(e)
			e.phase = held
			g.held = append(g.held, e)
		default:
			return e
		}
	}
}

// busyAny reports whether one of the serials has a step in work.
func (g *group) busyAny(serials []string) bool {
	return slices.ContainsFunc(serials, func(name string) bool {
		s := g.serials[name]
		return s != nil && s.busy
	})
}

// beginStep puts a ready entry in work.
func (q *queue) beginStep(e *entry) {
	s := e.serial
	s.ready.remove(e.index)
	e.phase = working
	e.since = time.Time{}
	q.working++
	s.group.working++
	if e.step.Long {
		s.group.long++
	}
	s.busy = true
	q.reposition(s)
	for _, name := range e.step.Others {
		other := s.group.serialNamed(name)
		other.busy = true
		q.reposition(other)
	}
}

// endStep records the end of an entry's step. The entry has no phase until update.
func (q *queue) endStep(e *entry, err error, now time.Time) {
	a := attempt{
		op:      e.step.Op,
		version: e.step.Version,
		failed:  err != nil,
		tries:   1,
		at:      now,
	}

	// A step that succeeded and changed rows begins to count anew. Without a change it counts as a failure,
	// so that it is not repeated without a pause.
	if e.last.op == a.op &&
		(a.failed || e.last.version == a.version) {
		a.tries += e.last.tries
	}

	s := e.serial
	e.last = a
	e.phase = noPhase
	e.serial = nil
	q.working--
	s.group.working--
	// The serial is busy until the last line, so the group exists. It has entries that are held only while it
	// has a step in work.
	for _, name := range e.step.Others {
		other := s.group.serialNamed(name)
		other.busy = false
		q.reposition(other)
	}
	waited := s.group.held
	s.group.held = nil
	if e.step.Long {
		s.group.long--
		q.releaseLong(s.group)
	}
	for _, other := range waited {
		q.enqueue(other)
	}
	s.busy = false

	// The group has a place for another step, perhaps of another serial.
	q.markRunnable(s.group)
	q.reposition(s)
}

// releaseLong makes the held long entries of a group ready: another one may have a place now.
func (q *queue) releaseLong(g *group) {
	waited := g.heldLong
	g.heldLong = nil
	for _, e := range waited {
		q.enqueue(e)
	}
}

// reposition moves a serial queue to its position in its group, after its entries or busy have changed.
func (q *queue) reposition(s *serialQueue) {
	g := s.group
	if s.index >= 0 {
		g.runnable.remove(s.index)
	}

	switch {
	case s.busy:
	case s.ready.Len() > 0:
		g.runnable.addItem(s)
		q.markRunnable(g)
	default:
		// Groups and serials exist as long as they have entries, so their number is bounded by the work.
		delete(g.serials, s.name)
		if len(g.serials) == 0 {
			delete(q.groups, g.name)
		}
	}
}

// markRunnable lists a group in which a step can perhaps begin.
func (q *queue) markRunnable(g *group) {
	if !g.listed {
		g.listed = true
		q.runnable = append(q.runnable, g)
	}
}
