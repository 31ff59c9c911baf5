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

// mirror is what who follows a store knows of it by looking at nothing but what it is told.
type mirror struct {
	store  *DB
	feed   *Subscription
	looks  int // at everything
	things map[string]string
	marked map[[3]string]string // by key: the holder
}

func follow(s *DB, most int) *mirror {
	m := &mirror{store: s, feed: s.Subscribe(most, thingRows, markedRows)}
	m.look(s.Read())
	return m
}

func (m *mirror) look(tx *ReadTx) {
	m.looks++
	m.things, m.marked = map[string]string{}, map[[3]string]string{}
	for n := range things.Scan(tx) {
		m.things[n.ID] = n.Name
	}
	for p := range markedPairs.Scan(tx) {
		m.marked[[3]string{p.A, p.B, p.C}] = p.Holder
	}
}

// catchUp takes what has come, looks, and returns what it looked at.
func (m *mirror) catchUp() []Change {
	rows, all := m.feed.TakeChanges()
	tx := m.store.Read()
	if all {
		m.look(tx)
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

// faults says in what the mirror differs from the store.
func (m *mirror) faults() (faults []string) {
	is := &mirror{}
	is.look(m.store.Read())
	if !reflect.DeepEqual(m.things, is.things) || !reflect.DeepEqual(m.marked, is.marked) {
		faults = append(faults, fmt.Sprintf("mirror %v %v, store %v %v", m.things, m.marked, is.things, is.marked))
	}
	return faults
}

// changeSome changes rows of three tables, two of which are followed, and returns which rows of these.
func changeSome(tx *WriteTx, n func(most int) int) (rows []Change) {
	// NUL, 0x01 and parts that are empty or begin alike are where keys could be taken for others.
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

// changeBatch applies a batch in which entries fail, which spills, and which may be given up. It returns the
// rows of all entries.
func changeBatch(s *DB, n func(most int) int) (rows []Change) {
	b := s.Begin()
	defer b.Abort()
	b.most = []int{1, 3, maxOverlay}[n(3)]
	for range 1 + n(3) {
		fails := n(3) == 0
		_ = b.Apply(s.Index()+1, func(tx *WriteTx) error {
			for range 1 + n(3) {
				rows = append(rows, changeSome(tx, n)...)
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

// TestSubscription_NamesTheChangedRows: what may have changed and nothing else, whatever becomes of batches
// and entries; and that it was too much, or that the store was restored.
func TestSubscription_NamesTheChangedRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(most int) int { return rapid.IntRange(0, most-1).Draw(rt, "n") }
		s := open()
		changeBatch(s, n)
		before := saved(t, s)
		m, narrow := follow(s, 1000), follow(s, 2)
		defer m.feed.Close()
		defer narrow.feed.Close()
		touched, restored := map[Change]bool{}, false
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch n(12) {
			case 0:
				if err := s.Load(bytes.NewReader(before)); err != nil {
					rt.Fatal(err)
				}
				restored = true
			case 1, 2, 3:
				looks := m.looks
				rows := m.catchUp()
				narrow.catchUp()
				if faults := append(m.faults(), narrow.faults()...); len(faults) > 0 {
					rt.Fatal(faults)
				}
				if restored != (m.looks > looks) {
					rt.Errorf("restored %v, looked at everything %v", restored, m.looks > looks)
				}
				for i, c := range rows {
					if !touched[c] || slices.Contains(rows[:i], c) {
						rt.Errorf("%+v is told, of %v", c, rows)
					}
				}
				touched, restored = map[Change]bool{}, false
			default:
				for _, c := range changeBatch(s, n) {
					touched[c] = true
				}
			}
		}
	})
}

// TestSubscription_ReportsOverflow: it holds no more than it may; who looks at everything then has lost
// nothing.
func TestSubscription_ReportsOverflow(t *testing.T) {
	s := open()
	f := s.Subscribe(10, thingRows)
	for i := range 100 {
		_ = s.Write(s.Index()+1, putThing(fmt.Sprint("n", i%10)))
		if len(f.keys) > 10 {
			t.Fatalf("%d keys are kept", len(f.keys))
		}
	}
	<-f.Ready()
	if rows, all := f.TakeChanges(); !all || len(rows) != 0 {
		t.Errorf("%d rows, all %v", len(rows), all)
	}
	_ = s.Write(s.Index()+1, putThing("n1"))
	_ = s.Write(s.Index()+1, func(tx *WriteTx) error { items.Put(tx, &item{ID: "e"}); return nil })
	_ = s.Write(s.Index()+1, putThing("n1"))
	<-f.Ready()
	if rows, all := f.TakeChanges(); all || len(rows) != 1 || rows[0] != (Change{thingRows, [3]string{"n1"}}) {
		t.Errorf("%v, all %v", rows, all)
	}
	select {
	case <-f.Ready():
		t.Error("what is taken is told once more")
	default:
	}
	f.Close()
	_ = s.Write(s.Index()+1, putThing("n1"))
	if rows, all := f.TakeChanges(); all || len(rows) != 0 {
		t.Errorf("a feed that is closed has %v, all %v", rows, all)
	}
	for lead, some := range s.watches.feeds {
		if len(some) > 0 {
			t.Errorf("%d feeds are kept for %d", len(some), lead)
		}
	}
}

// TestSubscription_MissesNoConcurrentChange while several write, and several come and go.
func TestSubscription_MissesNoConcurrentChange(t *testing.T) {
	s, marked := open(), make(chan struct{})
	var index atomic.Uint64
	var writers, followers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range 500 {
				_ = s.Write(index.Add(1), func(tx *WriteTx) error { changeSome(tx, r.IntN); return nil })
			}
		})
	}
	for w := range 3 {
		followers.Go(func() {
			for over := false; !over; {
				m := follow(s, 1+100*w)
				for range 20 {
					select {
					case <-m.feed.Ready():
					case <-marked:
						over = true
					}
					m.catchUp()
				}
				if over {
					if faults := m.faults(); len(faults) > 0 {
						t.Error(faults)
					}
				}
				m.feed.Close()
			}
		})
	}
	writers.Wait()
	close(marked)
	followers.Wait()
}

func FuzzSplitKey(f *testing.F) {
	f.Add("a", "", "\x00\x01")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if got := splitKey(KeyOf(a, b, c)); !slices.Equal(got, []string{a, b, c}) {
			t.Errorf("got %q", got)
		}
	})
}

// BenchmarkSubscribedChange is the price of a write of one row, and of its being taken by so many who follow.
func BenchmarkSubscribedChange(b *testing.B) {
	for _, followers := range []int{0, 2} {
		b.Run(fmt.Sprint(followers), func(b *testing.B) {
			s := open()
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
