package mvcc

import (
	"slices"
	"sync"
)

// watches holds the readers that wait. A reader watches points. A commit notifies the points with prefixes of
// the keys it has changed, in all indexes, before and after the change. So a reader that found no row waits
// for a row at that very key.
type watches struct {
	mu      sync.Mutex
	at      map[watchPoint]map[*waiter]struct{}
	partial partial
	feeds   feeds // the subscriptions

	// The last changes, for readers that begin to wait after them. A reader that begins later than these
	// reads again although nothing may have changed.
	notified uint64               // number of the newest view that was notified
	forgot   uint64               // number of the newest view whose changes were dropped
	last     [keptChanges]changes // of the views between these, by number
	keys     int                  // in last
}

// changes are the differences between a view and the one before it.
type changes struct {
	keys []pathKey
	all  bool // anything may have changed
}

const (
	keptChanges    = 1024  // views whose changes are kept
	keptKeys       = 32768 // in all of them together: a few megabytes
	maxChangedKeys = 8192  // in one view; of a view with more keys only that it changed is kept
)

// maxWatchPoints is the number of watch points above which a reader watches whole tables, which is cheaper
// and less precise.
const maxWatchPoints = 1024

// watchPointsAtOnce is the number of watch points that a reader joins or leaves under one hold of the lock,
// which commits need.
const watchPointsAtOnce = 64

// waiter is one reader that waits.
type waiter struct {
	points watchPoints
	seen   uint64 // the number of the view that it has read
	woken  chan struct{}
	awake  bool // woken is closed
}

// watchPoint is a prefix of keys in an access path: for a row its whole key, for a range the prefix of its
// keys, for a table the empty prefix of the keys of the table.
type watchPoint struct {
	path   *path
	prefix string
}

// watchPoints are the points that one reader watches.
type watchPoints struct {
	at      map[watchPoint]struct{}
	partial partial
}

// partial counts the watch points that do not end with a whole part, by access path and length. The end marks
// in a key do not show such watch points.
type partial map[watchPointKind]int

type watchPointKind struct {
	path   *path
	length int
}

func (p *partial) addCount(at watchPoint, by int) {
	if endsPart(at.prefix) {
		return
	}
	if *p == nil {
		*p = partial{}
	}
	kind := watchPointKind{at.path, len(at.prefix)}
	(*p)[kind] += by
	if (*p)[kind] == 0 {
		delete(*p, kind)
	}
}

func endsPart[P string | Key](prefix P) bool {
	return len(prefix) == 0 || prefix[len(prefix)-1] == 0
}

// eachPrefix calls fn with each prefix of the key that may be the prefix of a watch point.
func (p partial) eachPrefix(at pathKey, fn func(prefix []byte)) {
	fn(nil)
	for i, b := range at.key {
		if b == 0 {
			fn(at.key[:i+1])
		}
	}
	for kind := range p {
		if kind.path != at.path || kind.length > len(at.key) {
			continue
		}
		prefix := at.key[:kind.length]
		if !endsPart(prefix) {
			fn(prefix)
		}
	}
}

// recordRead records that the transaction reads at a key or at the keys with a prefix.
func (tx *ReadTx) recordRead(at pathKey) {
	table := at.path.table
	tx.tables.add(table)
	if !tx.watched || tx.whole.has(table) {
		return
	}
	if len(tx.points.at) >= maxWatchPoints {
		tx.whole.add(table)
		at = pathKey{path: tx.view.schema.own[table]}
	}
	tx.points.addPoint(at)
}

func (p *watchPoints) addPoint(at pathKey) {
	_, known := p.at[watchPoint{at.path, string(at.key)}]
	if known {
		return
	}
	if p.at == nil {
		p.at = map[watchPoint]struct{}{}
	}
	added := watchPoint{at.path, string(at.key)}
	p.at[added] = struct{}{}
	p.partial.addCount(added, 1)
}

// contains reports whether a change is at one of the watch points.
func (p watchPoints) contains(c changes) bool {
	found := c.all
	for _, k := range c.keys {
		if found {
			return true
		}
		p.partial.eachPrefix(k, func(prefix []byte) {
			_, watched := p.at[watchPoint{k.path, string(prefix)}]
			found = found || watched
		})
	}
	return found
}

// join makes tx wait for changes at its watch points, or in the tables that it has read if it is not watched,
// from the next view on. It reports whether there was such a change already.
func (w *watches) join(tx *ReadTx) (me *waiter, changed bool) {
	me = &waiter{
		points: tx.points,
		seen:   tx.view.number,
		woken:  make(chan struct{}),
	}

	if !tx.watched {
		me.points = watchPoints{}
		tx.tables.each(func(table int) {
			me.points.addPoint(pathKey{path: tx.view.schema.own[table]})
		})
	}

	w.mu.Lock()
	w.forEachPoint(me.points.at, func(p watchPoint) {
		joined := w.at[p]
		if joined == nil {
			joined = map[*waiter]struct{}{}
			w.at[p] = joined
		}

		joined[me] = struct{}{}
		w.partial.addCount(p, 1)
	})

	missed, tooMany := w.changesSince(me.seen) // all changes before the last watch point was joined
	w.mu.Unlock()
	for _, c := range missed {
		if me.points.contains(c) {
			return me, true
		}
	}

	return me, tooMany
}

// forEachPoint calls do for each watch point and releases w.mu now and then. The caller holds w.mu.
func (w *watches) forEachPoint(points map[watchPoint]struct{}, do func(watchPoint)) {
	done := 0
	for p := range points {
		done++
		if done%watchPointsAtOnce == 0 {
			w.mu.Unlock()
			w.mu.Lock()
		}
		do(p)
	}
}

// changesSince returns the changes after a view. The caller holds w.mu.
func (w *watches) changesSince(number uint64) (missed []changes, tooMany bool) {
	if w.notified <= number {
		return nil, false
	}
	if number < w.forgot {
		return nil, true
	}
	for n := number + 1; n <= w.notified; n++ {
		missed = append(missed, w.last[n%keptChanges])
	}
	return missed, false
}

func (w *watches) leave(me *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forEachPoint(me.points.at, func(p watchPoint) {
		delete(w.at[p], me)
		if len(w.at[p]) == 0 {
			delete(w.at, p)
		}
		w.partial.addCount(p, -1)
	})
}

// notify wakes the readers that wait for the changes of a view.
func (w *watches) notify(v *view, keys []pathKey, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remember(v.number, changes{keys, all})
	w.feeds.addChanges(keys, all)
	switch {
	case len(w.at) == 0:
	case all:
		for _, waiting := range w.at {
			wakeAll(waiting, v.number)
		}
	default:
		for _, k := range keys {
			w.partial.eachPrefix(k, func(prefix []byte) {
				// A key made inside the index expression copies no bytes.
				waiting := w.at[watchPoint{k.path, string(prefix)}]
				wakeAll(waiting, v.number)
			})
		}
	}
}

// remember keeps the changes of a view and forgets the oldest ones. The caller holds w.mu.
func (w *watches) remember(number uint64, c changes) {
	if len(c.keys) > maxChangedKeys {
		c = changes{all: true}
	}
	c.keys = slices.Clone(c.keys) // the next batch has the memory of the argument
	w.notified = number
	w.keys += len(c.keys)
	for w.notified-w.forgot > keptChanges || w.keys > keptKeys {
		w.forgot++
		oldest := &w.last[w.forgot%keptChanges]
		w.keys -= len(oldest.keys)
		*oldest = changes{}
	}
	w.last[number%keptChanges] = c
}

// wakeAll ends the wait of the readers that have not seen the view. The caller holds the lock of the watches.
func wakeAll(waiting map[*waiter]struct{}, number uint64) {
	for me := range waiting {
		if me.seen < number && !me.awake {
			me.awake = true
			close(me.woken)
		}
	}
}
