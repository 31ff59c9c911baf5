package events

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"berth/fsm"
	"berth/structs"
	"berth/structs/event"
)

// The bounds of an answer. Each has at least one event, if there is one.
const (
	maxAnswerEvents = 1000
	maxAnswerBytes  = 1 << 20
)

// The time for which a reader that has waited lets further events come: gather, and for more than fewReaders
// so much more that all readers together have a thousand answers in a second. It bounds what the answers cost
// the writes, however many entries and readers there are.
const (
	gather     = 10 * time.Millisecond
	fewReaders = 10
	maxGather  = 250 * time.Millisecond
)

// rowBytes is the memory that a changed row counts for until its payload is encoded, besides its part of the
// log entry: the rows around a change share most of what they refer to.
const rowBytes = 1 << 10

// Keep reports whether a reader wants an event, whose payload is not there yet. An error ends the reading.
type Keep = func(*event.Event) (bool, error)

// Ring has the newest events of a server. It is safe for concurrent use. It implements fsm.Observer.
type Ring struct {
	settings Settings
	maker    Maker

	mu      sync.Mutex
	entries []*entry // with events, by index
	rows    int      // changes in all entries
	bytes   int      // see entry.bytes
	newest  uint64   // index of the last entry applied
	// floor is the index after which no entry is missing.
	floor uint64
	// restored: the state was replaced after the newest entry. The index of the snapshot is not known, but it is
	// below the next entry's.
	restored bool
	news     chan struct{} // closed by the next change of newest or floor; nil: nobody waits
	waiting  int           // readers that wait for news, or let more come
}

// NewRing returns an empty ring.
func NewRing(s Settings, m Maker) *Ring { return &Ring{settings: s, maker: m} }

// Observes implements fsm.Observer.
func (r *Ring) Observes(table string) bool { return r.settings.EventBroker && r.maker.Makes(table) }

// Publish implements fsm.Observer.
func (r *Ring) Publish(newest uint64, entries []fsm.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restored {
		first := newest
		if len(entries) > 0 {
			first = entries[0].Index
		}
		r.floor = max(r.floor, first-1)
		r.restored = false
	}

	for i := range entries {
		e := newEntry(&entries[i])
		r.entries = append(r.entries, e)
		r.rows += e.rows
		r.bytes += e.bytes
	}

	r.newest = max(r.newest, newest)
	r.trim()
	r.notify()
}

// Restored implements fsm.Observer. All readers learn that they have missed what was before.
func (r *Ring) Restored(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = nil
	r.rows = 0
	r.bytes = 0
	r.newest = max(r.newest+1, index) // a restore by an operator has an index of its own
	r.floor = r.newest
	r.restored = true
	r.notify()
}

// trim removes the oldest entries beyond the bounds, but never the newest one: a reader that waits gets it.
func (r *Ring) trim() {
	for len(r.entries) > 1 && (r.rows > r.settings.EventBuffer || r.bytes > int(r.settings.EventBytes)) {
		oldest := r.entries[0]
		r.entries[0] = nil
		r.entries = r.entries[1:]
		r.rows -= oldest.rows
		r.bytes -= oldest.bytes
		r.floor = oldest.index
	}
}

func (r *Ring) notify() {
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// wait returns a channel that is closed by the next change. The caller holds the lock.
func (r *Ring) wait() <-chan struct{} {
	if r.news == nil {
		r.news = make(chan struct{})
	}
	return r.news
}

// Read answers a request: see event.List. It waits for an event until ctx ends, and then answers without one.
func (r *Ring) Read(ctx context.Context, req *event.ListRequest, keep Keep) (*event.ListResponse, error) {
	if !r.settings.EventBroker {
		return nil, structs.Preconditionf("this server keeps no events: set server.enable_event_broker = true, or ask another server")
	}

	resp := &event.ListResponse{
		Next:     req.After,
		NextSkip: req.Skip,
	}
	a := answer{resp: resp, keep: keep}
	for {
		entries, news := r.after(resp)
		for _, e := range entries {
			more, err := a.add(r, e)
			if err != nil {
				return nil, err
			}
			if !more {
				return resp, nil
			}
		}

		if len(entries) > 0 {
			continue
		}
		if len(resp.Events) > 0 || resp.Missed != nil || !r.waitFor(ctx, news) {
			return resp, nil
		}
	}
}

// waitFor waits for news, and then for more. It returns false if ctx ends before the news.
func (r *Ring) waitFor(ctx context.Context, news <-chan struct{}) bool {
	r.addWaiting(1)
	defer r.addWaiting(-1)
	select {
	case <-news:
	case <-ctx.Done():
		return false
	}
	more := time.NewTimer(gatherFor(r.addWaiting(0)))
	defer more.Stop()
	select {
	case <-more.C:
	case <-ctx.Done():
	}
	return true
}

// addWaiting changes the number of readers that wait, and returns it.
func (r *Ring) addWaiting(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting += n
	return r.waiting
}

// gatherFor returns how long each of a number of readers lets events come.
func gatherFor(readers int) time.Duration {
	return min(maxGather, gather*time.Duration(max(readers, fewReaders))/fewReaders)
}

// atOnce is how many entries a reader takes at once from the ring.
const atOnce = 256

// after returns the next entries of a reader, and moves its position over a gap. Without entries the reader
// has all that there is, and news is closed by the next change.
func (r *Ring) after(resp *event.ListResponse) (entries []*entry, news <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if resp.Next < r.floor {
		if resp.Next > 0 {
			resp.Missed = widened(resp.Missed, resp.Next+1, r.floor)
		}
		resp.Next = r.floor
		resp.NextSkip = 0
	}

	i := sort.Search(len(r.entries), func(i int) bool { return r.entries[i].index > resp.Next })
	entries = r.entries[i:min(i+atOnce, len(r.entries))]
	if len(entries) > 0 {
		return slices.Clone(entries), nil
	}
	if resp.Next < r.newest {
		resp.Next = r.newest
		resp.NextSkip = 0
	}
	return nil, r.wait()
}

// widened returns the gap with the indexes from and to in it.
func widened(g *event.Gap, from, to uint64) *event.Gap {
	if g == nil {
		return &event.Gap{From: from, To: to}
	}
	return &event.Gap{From: g.From, To: to}
}

// grow adds the bytes of payloads to an entry's, if the ring still has it.
func (r *Ring) grow(e *entry, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.index > r.floor {
		e.bytes += bytes
		r.bytes += bytes
		r.trim()
	}
}
