package mvcc

import (
	"slices"
)

// Topic is an index whose changes a subscription receives. It is comparable.
type Topic struct {
	path *path
	skip int
}

// Topic returns the index as a topic. A change names the parts of a key without the first skip parts. In an
// index that is not unique, the key in the table follows the parts of the index.
func (x *Index[R]) Topic(skip int) Topic {
	return Topic{x.index.path, skip}
}

// Change names a row that was inserted, changed or deleted, by the first three parts of its key after the
// parts that its topic skips. A part that the key does not have is "".
type Change struct {
	Topic Topic
	Key   [3]string
}

// Subscription collects the changes in its topics. A consumer first reads everything, in a snapshot made
// after Subscribe. Then it reads the rows that TakeChanges names, each time in a snapshot made after that
// call. So it misses no change, and the cost does not depend on the rows that do not change. A subscription
// belongs to one goroutine.
type Subscription struct {
	watches *watches
	topics  []Topic
	most    int
	ready   chan struct{} // holds one

	// Under the lock of the watches:
	keys []pathKey // one per change; the trees own them
	all  bool
}

// Subscribe starts a subscription. It holds at most the given number of changes. Beyond that it only reports
// that there were more. It costs the writer time until Close.
func (db *DB) Subscribe(most int, topics ...Topic) *Subscription {
	s := &Subscription{
		watches: &db.watches,
		most:    most,
		topics:  topics,
		ready:   make(chan struct{}, 1),
	}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	feeds := s.watches.feeds
	for _, t := range topics {
		feeds[t.path] = append(feeds[t.path], s)
	}
	return s
}

// Close ends the subscription. It must be called once.
func (s *Subscription) Close() {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	isThis := func(other *Subscription) bool { return other == s }
	feeds := s.watches.feeds
	for _, t := range s.topics {
		feeds[t.path] = slices.DeleteFunc(feeds[t.path], isThis)
	}
}

// Ready receives when there are changes to take.
func (s *Subscription) Ready() <-chan struct{} {
	return s.ready
}

// TakeChanges returns the rows that have changed since the last call, each once, in the order of their first
// change. It returns all when the consumer has to read everything again: there were more changes than the
// subscription holds, or the database was restored.
func (s *Subscription) TakeChanges() (rows []Change, all bool) {
	s.watches.mu.Lock()
	keys, all := s.keys, s.all
	s.keys, s.all = nil, false
	select {
	case <-s.ready:
	default:
	}

	s.watches.mu.Unlock()
	known := make(map[Change]struct{}, len(keys))
	for _, k := range keys {
		c := s.change(k)
		if _, twice := known[c]; !twice {
			known[c] = struct{}{}
			rows = append(rows, c)
		}
	}

	return rows, all
}

func (s *Subscription) change(at pathKey) Change {
	i := slices.IndexFunc(s.topics, func(t Topic) bool {
		return t.path == at.path
	})
	c := Change{Topic: s.topics[i]}
	copy(c.Key[:], splitParts(at.key)[c.Topic.skip:])
	return c
}

// addChange keeps a change. The caller holds the lock of the watches.
func (s *Subscription) addChange(k pathKey) {
	switch {
	case s.all:
		return
	case len(s.keys) >= s.most:
		s.overflow()
		return
	}
	s.keys = append(s.keys, k)
	if len(s.keys) == 1 {
		s.signal()
	}
}

// overflow drops the changes: the consumer has to read everything again. The caller holds the lock of the
// watches.
func (s *Subscription) overflow() {
	s.keys, s.all = nil, true
	s.signal()
}

func (s *Subscription) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// feeds are the subscriptions by the access paths that they receive.
type feeds map[*path][]*Subscription

// addChanges gives the changes of a view to the subscriptions. The caller holds the lock of the watches.
func (fs feeds) addChanges(keys []pathKey, all bool) {
	for _, k := range keys {
		for _, s := range fs[k.path] {
			s.addChange(k)
		}
	}
	if !all {
		return
	}
	for _, some := range fs {
		for _, s := range some {
			s.overflow()
		}
	}
}
