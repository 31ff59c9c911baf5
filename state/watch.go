package state

import (
	"context"
	"sync"
)

// Who waits is told by the keys that a batch has changed. A reader watches places, each the beginning of
// keys: of a row its whole key, of a range what the keys in it begin with, of a table the first byte of its
// own index. A change of a row concerns the places that its keys begin with, in all indexes, before and after;
// so a reader that found nothing somewhere waits for what comes there, and for nothing beside it.
type watches struct {
	mu      sync.Mutex
	at      map[string]map[*waiter]struct{} // by place
	partial partial
	feeds   feeds // who follows

	// What has lately changed, for readers that were at work meanwhile; later ones look again for nothing.
	told   uint64               // the number of the newest view that was told
	forgot uint64               // the number of the newest view of whose changes nothing is known any more
	recent [keptChanges]changes // of the views between, by number
	keys   int                  // in recent
}

// changes are what one view differs in from the one before.
type changes struct {
	keys []key
	all  bool // it may be anything
}

const (
	keptChanges = 1024  // views whose changes are kept
	keptKeys    = 32768 // of all of them together: a few megabytes
	mostChanges = 8192  // keys of one view; of one with more only that it has changed
)

// manyWatches is how many rows and ranges one reader watches one by one; beyond it watches whole tables,
// which is less precise and cheaper.
const manyWatches = 1024

// placesAtOnce is how many places a reader comes to, or leaves, before it lets go of the lock, which commits need.
const placesAtOnce = 64

// waiter is one reader that waits.
type waiter struct {
	places places
	seen   uint64 // the number of the view it has read
	woken  chan struct{}
	awake  bool // woken is closed
}

// places are what one reader watches.
type places struct {
	at      map[string]struct{}
	partial partial
}

// partial counts the places that do not end with a part of a key, by their index and length: they cannot be
// told from a key by its end marks.
type partial map[struct {
	lead   byte
	length int
}]int

func (p *partial) add(place string, by int) {
	if isWhole(place) {
		return
	}
	if *p == nil {
		*p = partial{}
	}
	kind := struct {
		lead   byte
		length int
	}{place[0], len(place)}
	if (*p)[kind] += by; (*p)[kind] == 0 {
		delete(*p, kind)
	}
}

func isWhole[P string | []byte](place P) bool { return len(place) == 1 || place[len(place)-1] == 0 }

// each calls fn with each beginning of the key that may be a place.
func (p partial) each(k key, fn func(place []byte)) {
	fn(k[:1])
	for i := 1; i < len(k); i++ {
		if k[i] == 0 {
			fn(k[:i+1])
		}
	}
	for kind := range p {
		if kind.lead == k[0] && kind.length <= len(k) && !isWhole([]byte(k[:kind.length])) {
			fn(k[:kind.length])
		}
	}
}

// note takes a place down, of a table with the number, for a reader that will wait.
func (tx *Read) note(table int, k key) {
	tx.mask |= 1 << table
	if !tx.watching || tx.whole&(1<<table) != 0 {
		return
	}
	if len(tx.places.at) >= manyWatches {
		tx.whole |= 1 << table
		k = key{schema().tables[table].firstByte()}
	}
	tx.places.add(k)
}

func (p *places) add(k key) {
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

// concernedBy reports whether a change is at one of the places.
func (p places) concernedBy(c changes) bool {
	concerned := c.all
	look := func(place []byte) {
		if _, watched := p.at[string(place)]; watched {
			concerned = true
		}
	}
	for i := 0; i < len(c.keys) && !concerned; i++ {
		p.partial.each(c.keys[i], look)
	}
	return concerned
}

// join lets the reader be woken by what changes at its places, or in the tables that it has read if it does
// not watch, from the next view after its own on. It reports whether something has changed already.
func (w *watches) join(r *Read) (me *waiter, changed bool) {
	me = &waiter{places: r.places, seen: r.view.number, woken: make(chan struct{})}
	if !r.watching {
		me.places = places{}
		for n, t := range schema().tables {
			if r.mask&(1<<n) != 0 {
				me.places.add(key{t.firstByte()})
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
	missed, tooMany := w.since(me.seen) // whatever came before the last place was taken
	w.mu.Unlock()
	for _, c := range missed {
		if me.places.concernedBy(c) {
			return me, true
		}
	}
	return me, tooMany
}

// inSteps does something with each place, letting others have w.mu, which it wants held, now and then.
func (w *watches) inSteps(places map[string]struct{}, do func(place string)) {
	done := 0
	for place := range places {
		if done++; done%placesAtOnce == 0 {
			w.mu.Unlock()
			w.mu.Lock()
		}
		do(place)
	}
}

// since lists what has changed after a view. It wants w.mu held.
func (w *watches) since(number uint64) (missed []changes, tooMany bool) {
	if w.told <= number {
		return nil, false
	}
	if number < w.forgot {
		return nil, true
	}
	for n := number + 1; n <= w.told; n++ {
		missed = append(missed, w.recent[n%keptChanges])
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

// tell wakes who waits for what has changed with the view.
func (w *watches) tell(v *view, keys []key, all bool) {
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

// remember keeps what a view has changed, in place of what is oldest. It wants w.mu held.
func (w *watches) remember(number uint64, c changes) {
	if len(c.keys) > mostChanges {
		c = changes{all: true}
	}
	w.told = number
	w.keys += len(c.keys)
	for w.told-w.forgot > keptChanges || w.keys > keptKeys {
		w.forgot++
		w.keys -= len(w.recent[w.forgot%keptChanges].keys)
		w.recent[w.forgot%keptChanges] = changes{}
	}
	w.recent[number%keptChanges] = c
}

// wakeAll wakes those who have not seen the view already.
func wakeAll(waiting map[*waiter]struct{}, number uint64) {
	for me := range waiting {
		if me.seen < number {
			me.wake()
		}
	}
}

// wake wants the lock of the watches held.
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
