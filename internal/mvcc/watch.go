package mvcc

import (
	"context"
	"sync"
)

// watches holds the readers that wait. A reader watches places. A place is a prefix of keys: for a row its
// whole key, for a range the prefix of its keys, for a table the first byte of its keys. A commit notifies
// the places that are prefixes of the keys it has changed, in all indexes, before and after the change. So a
// reader that found no row waits for a row at that very place.
type watches struct {
	mu      sync.Mutex
	at      map[string]map[*waiter]struct{} // by place
	partial partial
	feeds   feeds // the subscriptions

	// The last changes, for readers that begin to wait after them. A reader that comes later reads again in
	// vain.
	notified uint64               // number of the newest view that was notified
	forgot   uint64               // number of the newest view whose changes are forgotten
	last     [keptChanges]changes // of the views between these, by number
	keys     int                  // in last
}

// changes are the differences between a view and the one before it.
type changes struct {
	keys []Key
	all  bool // anything may have changed
}

const (
	keptChanges    = 1024  // views whose changes are kept
	keptKeys       = 32768 // in all of them together: a few megabytes
	maxChangedKeys = 8192  // in one view; of a view with more keys only that it changed is kept
)

// maxPlaces is the number of places above which a reader watches whole tables, which is cheaper and less
// precise.
const maxPlaces = 1024

// placesAtOnce is the number of places that a reader joins or leaves under one hold of the lock, which
// commits need.
const placesAtOnce = 64

// waiter is one reader that waits.
type waiter struct {
	places places
	seen   uint64 // the number of the view that it has read
	woken  chan struct{}
	awake  bool // woken is closed
}

// places are the places that one reader watches.
type places struct {
	at      map[string]struct{}
	partial partial
}

// partial counts the places that do not end with a whole part, by index and length. The end marks in a key do
// not show such places.
type partial map[placeKind]int

type placeKind struct {
	index  byte
	length int
}

func (p *partial) add(place string, by int) {
	if endsPart(place) {
		return
	}
	if *p == nil {
		*p = partial{}
	}
	kind := placeKind{place[0], len(place)}
	(*p)[kind] += by
	if (*p)[kind] == 0 {
		delete(*p, kind)
	}
}

func endsPart[P string | Key](place P) bool { return len(place) == 1 || place[len(place)-1] == 0 }

// each calls fn with each prefix of the key that may be a place.
func (p partial) each(k Key, fn func(place []byte)) {
	fn(k[:1])
	for i := 1; i < len(k); i++ {
		if k[i] == 0 {
			fn(k[:i+1])
		}
	}
	for kind := range p {
		if kind.index == k[0] && kind.length <= len(k) && !endsPart(k[:kind.length]) {
			fn(k[:kind.length])
		}
	}
}

// note records that the transaction reads at a place in a table.
func (tx *ReadTx) note(table int, k Key) {
	tx.tables |= 1 << table
	if !tx.watched || tx.whole&(1<<table) != 0 {
		return
	}
	if len(tx.places.at) >= maxPlaces {
		tx.whole |= 1 << table
		k = Key{tx.view.schema.tables[table].firstByte()}
	}
	tx.places.add(k)
}

func (p *places) add(k Key) {
	if _, known := p.at[string(k)]; known {
		return
	}
	if p.at == nil {
		p.at = map[string]struct{}{}
	}
	place := string(k)
	p.at[place] = struct{}{}
	p.partial.add(place, 1)
}

// contains reports whether a change is at one of the places.
func (p places) contains(c changes) bool {
	found := c.all
	look := func(place []byte) {
		if _, watched := p.at[string(place)]; watched {
			found = true
		}
	}
	for i := 0; i < len(c.keys) && !found; i++ {
		p.partial.each(c.keys[i], look)
	}
	return found
}

// join makes tx wait for changes at its places, or in the tables that it has read if it is not watched, from
// the next view on. It reports whether there was such a change already.
func (w *watches) join(tx *ReadTx) (me *waiter, changed bool) {
	me = &waiter{places: tx.places, seen: tx.view.number, woken: make(chan struct{})}
	if !tx.watched {
		me.places = places{}
		for n, t := range tx.view.schema.tables {
			if tx.tables&(1<<n) != 0 {
				me.places.add(Key{t.firstByte()})
			}
		}
	}
	w.mu.Lock()
	w.inSteps(me.places.at, func(place string) {
		if w.at == nil {
			w.at = map[string]map[*waiter]struct{}{}
		}
		if w.at[place] == nil {
			w.at[place] = map[*waiter]struct{}{}
		}
		w.at[place][me] = struct{}{}
		w.partial.add(place, 1)
	})
	missed, tooMany := w.since(me.seen) // all changes before the last place was joined
	w.mu.Unlock()
	for _, c := range missed {
		if me.places.contains(c) {
			return me, true
		}
	}
	return me, tooMany
}

// inSteps calls do for each place and releases w.mu now and then. The caller holds w.mu.
func (w *watches) inSteps(places map[string]struct{}, do func(place string)) {
	done := 0
	for place := range places {
		done++
		if done%placesAtOnce == 0 {
			w.mu.Unlock()
			w.mu.Lock()
		}
		do(place)
	}
}

// since returns the changes after a view. The caller holds w.mu.
func (w *watches) since(number uint64) (missed []changes, tooMany bool) {
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
	w.inSteps(me.places.at, func(place string) {
		delete(w.at[place], me)
		if len(w.at[place]) == 0 {
			delete(w.at, place)
		}
		w.partial.add(place, -1)
	})
}

// notify wakes the readers that wait for the changes of a view.
func (w *watches) notify(v *view, keys []Key, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remember(v.number, changes{keys, all})
	w.feeds.add(keys, all)
	switch {
	case len(w.at) == 0:
	case all:
		for _, waiting := range w.at {
			wakeAll(waiting, v.number)
		}
	default:
		for _, k := range keys {
			w.partial.each(k, func(place []byte) { wakeAll(w.at[string(place)], v.number) })
		}
	}
}

// remember keeps the changes of a view and forgets the oldest ones. The caller holds w.mu.
func (w *watches) remember(number uint64, c changes) {
	if len(c.keys) > maxChangedKeys {
		c = changes{all: true}
	}
	w.notified = number
	w.keys += len(c.keys)
	for w.notified-w.forgot > keptChanges || w.keys > keptKeys {
		w.forgot++
		w.keys -= len(w.last[w.forgot%keptChanges].keys)
		w.last[w.forgot%keptChanges] = changes{}
	}
	w.last[number%keptChanges] = c
}

// wakeAll wakes the readers that have not seen the view.
func wakeAll(waiting map[*waiter]struct{}, number uint64) {
	for me := range waiting {
		if me.seen < number {
			me.wake()
		}
	}
}

// wake ends the wait of a reader. The caller holds the lock of the watches.
func (me *waiter) wake() {
	if !me.awake {
		me.awake = true
		close(me.woken)
	}
}

func (me *waiter) wait(ctx context.Context) error {
	select {
	case <-me.woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
