package mvcc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

func TestBatch_AFailedEntryChangesOnlyTheIndex(t *testing.T) {
	s := openDB()
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
			a := things.Get(tx.ReadTx, "a")
			b := things.Get(tx.ReadTx, "b")
			p := others.Get(tx.ReadTx, "p")
			if a.Name != "" || b != nil || p != nil {
				t.Error("the failed entry has changed rows")
			}
			return putThing("c")(tx)
		}, nil},
		{func(tx *WriteTx) error { return failed }, failed},
	}
	for n, step := range steps {
		if err := b.Apply(uint64(n+1), step.fn); !errors.Is(err, step.want) {
			t.Errorf("entry %d: got %v, want %v", n+1, err, step.want)
		}
	}
	if s.Index() != 0 || things.Get(s.Read(), "a") != nil {
		t.Error("readers see the batch before its commit")
	}
	b.Commit()
	tx := s.Read()
	for range things.Scan(tx) {
	}
	if s.Index() != 4 || tx.Newest() != 3 {
		t.Errorf("the database is at index %d and the table at %d, want 4 and 3", s.Index(), tx.Newest())
	}
	tx = s.Read()
	others.Get(tx, "p")
	if tx.Newest() != 1 {
		t.Errorf("an unchanged table is at index %d, want 1", tx.Newest())
	}
	if n := things.Get(tx, "c"); n.CreateIndex != 3 || n.ModifyIndex != 3 {
		t.Errorf("the row is stamped %+v, want 3 and 3", n.Indexes)
	}
}

func TestSave_DoesNotDependOnBatches(t *testing.T) {
	one := openDB()
	many := openDB()
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
	if !bytes.Equal(snapshotFile(t, one), snapshotFile(t, many)) {
		t.Error("the files of equal databases differ")
	}
}

func TestRead_IsASnapshot(t *testing.T) {
	s := openDB()
	_ = s.Write(1, putThing("a"))
	tx := s.Read()
	_ = s.Write(2, putThing("b"))
	if things.Get(tx, "b") != nil || tx.Applied() != 1 || s.Index() != 2 {
		t.Errorf("the snapshot is at index %d, want 1 without later rows", tx.Applied())
	}
}

func TestWait_ReturnsForChangesOfReadRows(t *testing.T) {
	for _, c := range []struct {
		name    string
		read    func(*ReadTx)
		writes  func(*WriteTx) error
		precise bool // Wait returns for a transaction from ReadWatched
		coarse  bool // Wait returns for one from Read
	}{
		{"the row", func(tx *ReadTx) { things.Get(tx, "aa") }, putThing("aa"), true, true},
		{"another row", func(tx *ReadTx) { things.Get(tx, "aa") }, putThing("zz"), false, true},
		{"another table", func(tx *ReadTx) { others.Get(tx, "aa") }, putThing("aa"), false, false},
		{"a new row in a range", func(tx *ReadTx) {
			for range things.Prefix(tx, "a") {
			}
		}, putThing("ax"), true, true},
		{"a row beside a range", func(tx *ReadTx) {
			for range things.Prefix(tx, "a") {
			}
		}, putThing("zx"), false, true},
		{"the number of rows", func(tx *ReadTx) { things.Len(tx) }, putThing("zx"), true, true},
		{"a missing row", func(tx *ReadTx) { things.Get(tx, "new") }, putThing("new"), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openDB()
				for _, id := range []string{"aa", "ab", "zz"} {
					_ = s.Write(1, putThing(id))
				}
				if got := waitReturns(s, s.ReadWatched(), c.read, c.writes); got != c.precise {
					t.Errorf("Wait returns for ReadWatched: got %v, want %v", got, c.precise)
				}
				if got := waitReturns(s, s.Read(), c.read, c.writes); got != c.coarse {
					t.Errorf("Wait returns for Read: got %v, want %v", got, c.coarse)
				}
			})
		})
	}
}

// waitReturns reports whether the wait of a transaction ends with a write.
func waitReturns(s *DB, tx *ReadTx, read func(*ReadTx), write func(*WriteTx) error) bool {
	ctx, cancel := context.WithCancel(context.Background())
	read(tx)
	ended := make(chan error, 1)
	go func() { ended <- s.Wait(ctx, tx) }()
	synctest.Wait()
	_ = s.Write(s.Index()+1, write)
	synctest.Wait()
	cancel()
	return <-ended == nil
}

func TestReadWatched_WatchesTablesBeyondManyWatchPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDB()
		b := s.Begin()
		ids := make([]string, maxWatchPoints+100)
		for n := range ids {
			ids[n] = fmt.Sprintf("%08x", n*7919)
			_ = b.Apply(1, putThing(ids[n]))
		}
		b.Commit()
		tx := s.ReadWatched()
		for _, id := range ids {
			things.Get(tx, id)
		}
		if len(tx.points.at) > maxWatchPoints+2 {
			t.Errorf("the transaction watches %d points, want at most %d", len(tx.points.at), maxWatchPoints+2)
		}
		if !waitReturns(s, tx, func(*ReadTx) {}, putThing(ids[len(ids)-1])) {
			t.Error("Wait misses a change of the last row")
		}
	})
}

// The edits of a batch are those of its last entry in their order. An entry that fails has none.
func TestBatch_EditsAreThoseOfTheLastEntry(t *testing.T) {
	b := openDB().Begin()
	defer b.Abort()
	first := &thing{ID: "a"}
	_ = b.Apply(1, func(tx *WriteTx) error {
		things.Put(tx, first)
		return nil
	})
	if want := []Edit{{"things", nil, first}}; !slices.Equal(b.Edits(), want) {
		t.Errorf("after an insert: got %v, want %v", b.Edits(), want)
	}

	second := &thing{ID: "a", Name: "x"}
	added := &thing{ID: "c"}
	_ = b.Apply(2, func(tx *WriteTx) error {
		things.Put(tx, second)
		things.Delete(tx, second)
		things.PutNew(tx, added, nil)
		return nil
	})
	want := []Edit{{"things", first, second}, {"things", second, nil}, {"things", nil, added}}
	if !slices.Equal(b.Edits(), want) {
		t.Errorf("after several changes: got %v, want %v", b.Edits(), want)
	}

	_ = b.Apply(1, func(tx *WriteTx) error {
		things.Put(tx, &thing{ID: "b"})
		return errors.New("no")
	})
	if len(b.Edits()) != 0 {
		t.Errorf("after an entry that failed: got %v", b.Edits())
	}
}
