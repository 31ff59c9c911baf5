package mvcc

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// thingRows and markedRows are the topics of these tests.
var thingRows, markedRows = things.Topic(0), markedPairs.Topic(1)

// mirror is a copy of rows that a consumer updates by a subscription alone.
type mirror struct {
	store  *DB
	feed   *Subscription
	reads  int // of everything
	things map[string]string
	marked map[[3]string]string // by key: the holder
}

func newMirror(s *DB, most int) *mirror {
	m := &mirror{store: s, feed: s.Subscribe(most, thingRows, markedRows)}
	m.readAll(s.Read())
	return m
}

func (m *mirror) readAll(tx *ReadTx) {
	m.reads++
	m.things = map[string]string{}
	m.marked = map[[3]string]string{}
	for n := range things.Scan(tx) {
		m.things[n.ID] = n.Name
	}
	for p := range markedPairs.Scan(tx) {
		m.marked[[3]string{p.A, p.B, p.C}] = p.Holder
	}
}

// catchUp takes the changes, reads their rows and returns the changes.
func (m *mirror) catchUp() []Change {
	rows, all := m.feed.TakeChanges()
	tx := m.store.Read()
	if all {
		m.readAll(tx)
		return nil
	}
	for _, c := range rows {
		switch c.Topic {
		case thingRows:
			delete(m.things, c.Key[0])
			if n := things.Get(tx, c.Key[0]); n != nil {
				m.things[n.ID] = n.Name
			}
		case markedRows:
			delete(m.marked, c.Key)
			if p := pairs.Get(tx, c.Key[0], c.Key[1], c.Key[2]); p != nil && p.Marked {
				m.marked[c.Key] = p.Holder
			}
		}
	}
	return rows
}

// fault describes the difference between the mirror and the database, "" if there is none.
func (m *mirror) fault() string {
	want := &mirror{}
	want.readAll(m.store.Read())
	if reflect.DeepEqual(m.things, want.things) && reflect.DeepEqual(m.marked, want.marked) {
		return ""
	}
	return fmt.Sprintf("the mirror has %v %v, the database %v %v",
		m.things, m.marked, want.things, want.marked)
}

// changeRows changes rows of three tables and returns the changes in the two topics.
func changeRows(tx *WriteTx, n func(most int) int) (rows []Change) {
	// Empty parts, NUL, 0x01 and parts with a common prefix test the encoding of keys.
	names := []string{"", "a", "ab", "a\x00", "\x01", "b\x00\x01c"}
	name := func() string { return names[n(len(names))] }
	switch n(3) {
	case 0:
		r := &thing{ID: name(), Name: fmt.Sprint(n(1000))}
		rows = append(rows, Change{thingRows, [3]string{r.ID}})
		if n(3) == 0 {
			things.Delete(tx, r)
			return rows
		}
		things.Put(tx, r)
	case 1:
		p := &pair{A: name(), B: name(), C: name(), Holder: name(), Marked: n(2) == 1}
		old := pairs.Get(tx.ReadTx, p.A, p.B, p.C)
		if p.Marked || old != nil && old.Marked {
			rows = append(rows, Change{markedRows, [3]string{p.A, p.B, p.C}})
		}
		if n(3) == 0 {
			pairs.Delete(tx, p)
			return rows
		}
		pairs.Put(tx, p)
	default:
		items.Put(tx, &item{ID: name()})
	}
	return rows
}

// changeBatch applies a batch. Entries may fail, the overlay may spill, and the batch may be aborted. It
// returns the changes of all entries.
func changeBatch(s *DB, n func(most int) int) (rows []Change) {
	b := s.Begin()
	defer b.Abort()
	b.most = []int{1, 3, maxOverlay}[n(3)]
	for range 1 + n(3) {
		fails := n(3) == 0
		_ = b.Apply(s.Index()+1, func(tx *WriteTx) error {
			for range 1 + n(3) {
				rows = append(rows, changeRows(tx, n)...)
			}
			if fails {
				return errors.New("no")
			}
			return nil
		})
	}
	if n(5) > 0 {
		b.Commit()
	}
	return rows
}

// TestSubscription_NamesTheChangedRows: it names no other row, and reports an overflow and a restore.
func TestSubscription_NamesTheChangedRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(most int) int { return rapid.IntRange(0, most-1).Draw(rt, "n") }
		s := openDB()
		changeBatch(s, n)
		before := snapshotFile(t, s)
		m := newMirror(s, 1000)
		narrow := newMirror(s, 2)
		defer m.feed.Close()
		defer narrow.feed.Close()
		touched := map[Change]bool{}
		restored := false
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch n(12) {
			case 0:
				if err := s.Load(bytes.NewReader(before)); err != nil {
					rt.Fatal(err)
				}
				restored = true
			case 1, 2, 3:
				reads := m.reads
				rows := m.catchUp()
				narrow.catchUp()
				for _, fault := range []string{m.fault(), narrow.fault()} {
					if fault != "" {
						rt.Fatal(fault)
					}
				}
				if readAll := m.reads > reads; readAll != restored {
					rt.Errorf("after a restore %v: everything is read again %v", restored, readAll)
				}
				for i, c := range rows {
					if !touched[c] || slices.Contains(rows[:i], c) {
						rt.Errorf("got change %+v in %v, want each changed row once", c, rows)
					}
				}
				touched = map[Change]bool{}
				restored = false
			default:
				for _, c := range changeBatch(s, n) {
					touched[c] = true
				}
			}
		}
	})
}

// TestSubscription_ReportsOverflow: it holds no more changes than its bound.
func TestSubscription_ReportsOverflow(t *testing.T) {
	s := openDB()
	f := s.Subscribe(10, thingRows)
	for i := range 100 {
		_ = s.Write(s.Index()+1, putThing(fmt.Sprint("n", i%10)))
		if len(f.keys) > 10 {
			t.Fatalf("the subscription holds %d keys, want at most 10", len(f.keys))
		}
	}
	<-f.Ready()
	if rows, all := f.TakeChanges(); !all || len(rows) != 0 {
		t.Errorf("after an overflow: got %d rows, all %v; want 0, true", len(rows), all)
	}
	_ = s.Write(s.Index()+1, putThing("n1"))
	_ = s.Write(s.Index()+1, func(tx *WriteTx) error {
		items.Put(tx, &item{ID: "e"})
		return nil
	})
	_ = s.Write(s.Index()+1, putThing("n1"))
	<-f.Ready()
	if rows, all := f.TakeChanges(); all || len(rows) != 1 || rows[0] != (Change{thingRows, [3]string{"n1"}}) {
		t.Errorf("got %v, all %v; want the row n1 once", rows, all)
	}
	select {
	case <-f.Ready():
		t.Error("Ready receives although there are no changes")
	default:
	}
	f.Close()
	_ = s.Write(s.Index()+1, putThing("n1"))
	if rows, all := f.TakeChanges(); all || len(rows) != 0 {
		t.Errorf("after Close: got %v, all %v; want nothing", rows, all)
	}
	for path, some := range s.watches.feeds {
		if len(some) > 0 {
			t.Errorf("%d closed subscriptions are kept for %s", len(some), path.name)
		}
	}
}

// TestSubscription_MissesNoConcurrentChange: several writers work while subscriptions begin and end.
func TestSubscription_MissesNoConcurrentChange(t *testing.T) {
	s := openDB()
	written := make(chan struct{})
	var index atomic.Uint64
	var writers, followers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range 500 {
				_ = s.Write(index.Add(1), func(tx *WriteTx) error {
					changeRows(tx, r.IntN)
					return nil
				})
			}
		})
	}
	for w := range 3 {
		followers.Go(func() {
			for over := false; !over; {
				m := newMirror(s, 1+100*w)
				for range 20 {
					select {
					case <-m.feed.Ready():
					case <-written:
						over = true
					}
					m.catchUp()
				}
				if fault := m.fault(); over && fault != "" {
					t.Error(fault)
				}
				m.feed.Close()
			}
		})
	}
	writers.Wait()
	close(written)
	followers.Wait()
}

func FuzzSplitKey(f *testing.F) {
	f.Add("a", "", "\x00\x01")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if got := splitParts(KeyOf(a, b, c)); !slices.Equal(got, []string{a, b, c}) {
			t.Errorf("got %q, want %q", got, []string{a, b, c})
		}
	})
}

// BenchmarkSubscribedChange measures a write of one row with a number of subscriptions that take the change.
func BenchmarkSubscribedChange(b *testing.B) {
	for _, followers := range []int{0, 2} {
		b.Run(fmt.Sprint(followers), func(b *testing.B) {
			s := openDB()
			var feeds []*Subscription
			for range followers {
				feeds = append(feeds, s.Subscribe(1<<16, thingRows))
			}
			for b.Loop() {
				_ = s.Write(s.Index()+1, putThing("n"))
				for _, f := range feeds {
					f.TakeChanges()
				}
			}
		})
	}
}
