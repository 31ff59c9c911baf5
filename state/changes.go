package state

import (
	"slices"
	"strings"
)

// Topic is an index whose changes a loop can follow; what follows it names the parts of a row's key.
type Topic int

// What can be followed.
const (
	NodeRows         Topic = iota // node
	InstanceRows                  // plugin, kind, node
	VolumeRows                    // namespace, volume
	AttachmentRows                // namespace, volume, node
	EndedClaimRows                // namespace, volume, allocation: of claims that outlive their allocations, or did before
	GrowingClaimRows              // likewise, of GrowingClaims
)

// topics say where the keys of a topic are, and how many parts of them come before the key of the row.
var topics = [...]struct {
	lead   *byte
	before int
}{
	NodeRows:       {&nodes.lead, 0},
	InstanceRows:   {&instances.lead, 0},
	VolumeRows:     {&volumes.lead, 0},
	AttachmentRows: {&attachments.lead, 0},
	EndedClaimRows: {&endedClaims.lead, 1},

	GrowingClaimRows: {&growing.lead, 2},
}

// Changed names a row that has come, has changed or has gone; parts that its key does not have are "".
type Changed struct {
	Topic Topic
	Key   [3]string
}

// Feed collects for one loop which rows of its topics have changed. A loop that begins with a look at
// everything, made after Follow, and then looks again at what Take names, in a snapshot made after that Take, has
// seen each change; however many rows there are that did not change. It belongs to one goroutine.
type Feed struct {
	watches *watches
	leads   []byte // of its topics
	topics  []Topic
	most    int
	told    chan struct{} // holds one

	// Under the lock of the watches:
	keys []key // each as often as it has changed; they are the tree's
	all  bool
}

// Follow begins a feed that keeps at most so many changes until they are taken; of more it says only that they
// were many. It costs the writers, so Close ends it.
func (s *Store) Follow(most int, followed ...Topic) *Feed {
	f := &Feed{watches: &s.watches, most: most, topics: followed, told: make(chan struct{}, 1)}
	for _, t := range followed {
		f.leads = append(f.leads, *topics[t].lead)
	}
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	for _, lead := range f.leads {
		f.watches.feeds[lead] = append(f.watches.feeds[lead], f)
	}
	return f
}

// Close ends the feed. It is to be called once.
func (f *Feed) Close() {
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	for _, lead := range f.leads {
		f.watches.feeds[lead] = slices.DeleteFunc(f.watches.feeds[lead], func(other *Feed) bool { return other == f })
	}
}

// Told receives when there is something to Take.
func (f *Feed) Told() <-chan struct{} { return f.told }

// Take returns the rows that have changed since the last Take, each once, in the order in which they first did;
// or all, when everything has to be looked at again: there were more than are kept, or the store was restored.
func (f *Feed) Take() (rows []Changed, all bool) {
	f.watches.mu.Lock()
	keys, all := f.keys, f.all
	f.keys, f.all = nil, false
	select {
	case <-f.told:
	default:
	}
	f.watches.mu.Unlock()
	known := make(map[Changed]struct{}, len(keys))
	for _, k := range keys {
		c := f.changed(k)
		if _, twice := known[c]; !twice {
			known[c] = struct{}{}
			rows = append(rows, c)
		}
	}
	return rows, all
}

func (f *Feed) changed(k key) Changed {
	c := Changed{Topic: f.topics[slices.Index(f.leads, k[0])]}
	copy(c.Key[:], partsOf(k)[topics[c.Topic].before:])
	return c
}

// add wants the lock of the watches held.
func (f *Feed) add(k key) {
	switch {
	case f.all:
		return
	case len(f.keys) >= f.most:
		f.lose()
		return
	}
	if f.keys = append(f.keys, k); len(f.keys) == 1 {
		f.tell()
	}
}

// lose gives up what is kept: everything has to be looked at again. It wants the lock of the watches held.
func (f *Feed) lose() {
	f.keys, f.all = nil, true
	f.tell()
}

func (f *Feed) tell() {
	select {
	case f.told <- struct{}{}:
	default:
	}
}

// feeds are those who follow, by the first bytes of the keys that they want.
type feeds [256][]*Feed

// add tells those who follow what has changed. It wants the lock of the watches held.
func (fs *feeds) add(keys []key, all bool) {
	for _, k := range keys {
		for _, f := range fs[k[0]] {
			f.add(k)
		}
	}
	if !all {
		return
	}
	for _, some := range fs {
		for _, f := range some {
			f.lose()
		}
	}
}

// partsOf takes a key apart: it is the reverse of appendKey.
func partsOf(k key) []string {
	parts := strings.Split(string(k[1:]), "\x00")
	parts = parts[:len(parts)-1] // each ends with its mark
	for i, p := range parts {
		if strings.IndexByte(p, 1) >= 0 {
			parts[i] = unescape(p)
		}
	}
	return parts
}

func unescape(part string) string {
	out := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		b := part[i]
		if b == 1 {
			i++
			b = part[i] - 1
		}
		out = append(out, b)
	}
	return string(out)
}
