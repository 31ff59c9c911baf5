package mvcc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

func TestBatch_AFailedEntryChangesOnlyTheIndex(t *testing.T) {
	s := open()
	b := s.Begin()
	failed := errors.New("no")
	steps := []struct {
		fn   func(*WriteTx) error
		want error
	}{
		{putThing("a"), nil},
		{func(tx *WriteTx) error {
			things.Put(tx, &thing{ID: "a", Name: "changed"})
			things.Put(tx, &thing{ID: "b"})
			things.Put(tx, &thing{ID: "b", Name: "twice"})
			things.Delete(tx, &thing{ID: "a"})
			others.Put(tx, &other{ID: "p"})
			return failed
		}, failed},
		{func(tx *WriteTx) error {
			a, b, p := things.Get(tx.ReadTx, "a"), things.Get(tx.ReadTx, "b"), others.Get(tx.ReadTx, "p")
			if a.Name != "" || b != nil || p != nil {
				t.Error("the failed entry left something behind")
			}
			return putThing("c")(tx)
		}, nil},
		{func(tx *WriteTx) error { return failed }, failed},
	}
	for n, step := range steps {
		if err := b.Apply(uint64(n+1), step.fn); !errors.Is(err, step.want) {
			t.Errorf("entry %d: %v", n+1, err)
		}
	}
	if s.Index() != 0 || things.Get(s.Read(), "a") != nil {
		t.Error("visible before the commit")
	}
	b.Commit()
	tx := s.Read()
	for range things.Scan(tx) {
	}
	if s.Index() != 4 || tx.Newest() != 3 {
		t.Errorf("store at %d, things at %d", s.Index(), tx.Newest())
	}
	tx = s.Read()
	others.Get(tx, "p")
	if tx.Newest() != 1 {
		t.Errorf("a table that nothing changed is at %d", tx.Newest())
	}
	if n := things.Get(tx, "c"); n.CreateIndex != 3 || n.ModifyIndex != 3 {
		t.Errorf("stamped %+v", n.Indexes)
	}
}

func TestSave_DoesNotDependOnBatches(t *testing.T) {
	one, many := open(), open()
	b := many.Begin()
	for n := range uint64(20) {
		fn := putThing(string(rune('a' + n%7)))
		if n%5 == 4 {
			fn = func(tx *WriteTx) error { return errors.New("no") }
		}
		_ = one.Write(n+1, fn)
		_ = b.Apply(n+1, fn)
	}
	b.Commit()
	if !bytes.Equal(saved(t, one), saved(t, many)) {
		t.Error("they differ")
	}
}

func TestRead_IsASnapshot(t *testing.T) {
	s := open()
	_ = s.Write(1, putThing("a"))
	tx := s.Read()
	_ = s.Write(2, putThing("b"))
	if things.Get(tx, "b") != nil || tx.Applied() != 1 || s.Index() != 2 {
		t.Error("it moved")
	}
}

func TestWait_ReturnsForChangesOfReadRows(t *testing.T) {
	for _, c := range []struct {
		name    string
		read    func(*ReadTx)
		writes  func(*WriteTx) error
		precise bool // a reader from ReadWatched wakes
		coarse  bool // one from Read does
	}{
		{"the row", func(tx *ReadTx) { things.Get(tx, "aa") }, putThing("aa"), true, true},
		{"another row", func(tx *ReadTx) { things.Get(tx, "aa") }, putThing("zz"), false, true},
		{"another table", func(tx *ReadTx) { others.Get(tx, "aa") }, putThing("aa"), false, false},
		{"a row that is new in a range", func(tx *ReadTx) {
			for range things.Prefix(tx, "a") {
			}
		}, putThing("ax"), true, true},
		{"a row beside a range", func(tx *ReadTx) {
			for range things.Prefix(tx, "a") {
			}
		}, putThing("zx"), false, true},
		{"a row that was not there", func(tx *ReadTx) { things.Get(tx, "new") }, putThing("new"), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open()
				for _, id := range []string{"aa", "ab", "zz"} {
					_ = s.Write(1, putThing(id))
				}
				if got := wakes1(s, s.ReadWatched(), c.read, c.writes); got != c.precise {
					t.Errorf("a watching reader woke: %v", got)
				}
				if got := wakes1(s, s.Read(), c.read, c.writes); got != c.coarse {
					t.Errorf("another reader woke: %v", got)
				}
			})
		})
	}
}

func wakes1(s *DB, tx *ReadTx, read func(*ReadTx), writes func(*WriteTx) error) bool {
	ctx, cancel := context.WithCancel(context.Background())
	read(tx)
	woke := make(chan error, 1)
	go func() { woke <- s.Wait(ctx, tx) }()
	synctest.Wait()
	_ = s.Write(s.Index()+1, writes)
	synctest.Wait()
	cancel()
	return <-woke == nil
}

func TestReadWatched_WatchesTablesBeyondAManyPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open()
		b := s.Begin()
		ids := make([]string, maxPlaces+100)
		for n := range ids {
			ids[n] = fmt.Sprintf("%08x", n*7919)
			_ = b.Apply(1, putThing(ids[n]))
		}
		b.Commit()
		tx := s.ReadWatched()
		for _, id := range ids {
			things.Get(tx, id)
		}
		if len(tx.places.at) > maxPlaces+2 {
			t.Errorf("%d places", len(tx.places.at))
		}
		if !wakes1(s, tx, func(*ReadTx) {}, putThing(ids[len(ids)-1])) {
			t.Error("the last row's change was missed")
		}
	})
}
