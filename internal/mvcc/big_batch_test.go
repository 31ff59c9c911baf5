package mvcc

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
)

// largeBatch makes random batches that are so large that they write their overlay in the middle of entries.
type largeBatch struct {
	t     *testing.T
	rand  *rand.Rand
	model plainTable
}

var fewNames = []string{"a", "b", "ab", "c"}

func (w *largeBatch) randomName() string { return fewNames[w.rand.IntN(len(fewNames))] }

func (w *largeBatch) randomID() string {
	if w.rand.IntN(10) == 0 {
		return w.randomName()
	}
	return fmt.Sprint("b", w.rand.IntN(150))
}

// changeRow puts or deletes a random row.
func (w *largeBatch) changeRow(tx *WriteTx) {
	id := w.randomID()
	if w.rand.IntN(4) == 0 {
		items.Delete(tx, &item{ID: id})
		delete(w.model, id)
		return
	}
	e := &item{
		ID:     id,
		Space:  "n",
		Group:  w.randomName(),
		Text:   fmt.Sprint(tx.Index, ".", w.rand.Uint32()),
		Status: []string{blocked, pending, done}[w.rand.IntN(3)],
	}
	for range w.rand.IntN(4) {
		e.Tags = append(e.Tags, w.randomName()) // possibly the same tag twice
	}
	items.Put(tx, e)
	w.model[id] = e
}

// scans returns the ways to scan the table that a writer may use while it writes.
func (w *largeBatch) scans() []func(*ReadTx) func(func(*item) bool) {
	name := w.randomName()
	return []func(*ReadTx) func(func(*item) bool){
		func(tx *ReadTx) func(func(*item) bool) { return items.Scan(tx) },
		func(tx *ReadTx) func(func(*item) bool) { return items.Prefix(tx, "b1") },
		func(tx *ReadTx) func(func(*item) bool) { return itemsByGroup.Scan(tx, "n", name) },
		func(tx *ReadTx) func(func(*item) bool) { return itemsByTurn.Scan(tx) },
		func(tx *ReadTx) func(func(*item) bool) { return itemsByList.Scan(tx) },
		func(tx *ReadTx) func(func(*item) bool) { return itemsByList.Scan(tx, done) },
		func(tx *ReadTx) func(func(*item) bool) { return itemsByTag.Scan(tx) },
		func(tx *ReadTx) func(func(*item) bool) { return itemsByTag.Scan(tx, name) },
		func(tx *ReadTx) func(func(*item) bool) {
			return func(yield func(*item) bool) {
				for c := itemsByGroup.Seek(tx, "n", name); ; {
					if e := c.Next(); e == nil || !yield(e) {
						return
					}
				}
			}
		},
	}
}

// checkScans changes the table during each scan. The scan sees the rows of its beginning.
func (w *largeBatch) checkScans(tx *WriteTx) {
	for n, rows := range w.scans() {
		want := rowTexts(rows(tx.ReadTx))
		var got []string
		for e := range rows(tx.ReadTx) {
			got = append(got, e.ID+"="+e.Text)
			if w.rand.IntN(2) == 0 {
				items.Delete(tx, e)
				delete(w.model, e.ID)
			}
			w.changeRow(tx)
		}
		if strings.Join(got, " ") != want {
			w.t.Fatalf("scan %d at index %d: got %q, want %q", n, tx.Index, got, want)
		}
	}
}

// applyEntry makes many changes. It fails at random.
func (w *largeBatch) applyEntry(tx *WriteTx) error {
	for range 4 {
		for range w.rand.IntN(200) {
			w.changeRow(tx)
		}
		w.model.checkRows(w.t, tx.ReadTx, "inside the entry")
		w.checkScans(tx)
	}
	w.model.checkRows(w.t, tx.ReadTx, "at the end of the entry")
	if w.rand.IntN(3) == 0 {
		return errors.New("no")
	}
	return nil
}

// TestBatch_LargeEntriesMatchTheModel applies entries with more changes than the overlay holds. Some entries
// fail and some batches are aborted.
func TestBatch_LargeEntriesMatchTheModel(t *testing.T) {
	spilled := 0
	for seed := range uint64(3) {
		s := openDB()
		w := &largeBatch{t, rand.New(rand.NewPCG(seed, 7)), plainTable{}}
		index := uint64(0)
		for range 6 {
			b := s.Begin()
			before := maps.Clone(w.model)
			if w.rand.IntN(2) == 0 {
				b.most = 1 + w.rand.IntN(60)
			}
			for range 1 + w.rand.IntN(4) {
				index++
				was := maps.Clone(w.model)
				if b.Apply(index, w.applyEntry) != nil {
					w.model = was
				}
			}
			spilled += b.written
			if w.rand.IntN(4) == 0 {
				b.Abort()
				w.model = before
			}
			b.Commit()
			w.model.checkRows(t, s.Read(), "after the batch")
			checkConsistent(t, s)
		}
	}
	if spilled < 50 {
		t.Errorf("overlays were written %d times within a batch, want at least 50", spilled)
	}
}

// TestBatch_FollowsTheState restores a database and aborts batches that have written.
func TestBatch_FollowsTheState(t *testing.T) {
	s := openDB()
	other := openDB()
	_ = s.Write(1, putThing("a"))
	_ = other.Write(1, putThing("b"))
	if err := s.Load(bytes.NewReader(snapshotFile(t, other))); err != nil {
		t.Fatal(err)
	}
	checkConsistent(t, s)
	_ = s.Write(3, func(tx *WriteTx) error {
		if things.Get(tx.ReadTx, "a") != nil || things.Get(tx.ReadTx, "b") == nil {
			t.Error("a writer sees the rows from before the restore")
		}
		return nil
	})
	b := s.Begin()
	b.most = 1
	_ = b.Apply(4, putThing("c"))
	b.Abort()
	checkConsistent(t, s)
	func() {
		b := s.Begin()
		defer func() {
			b.Abort()
			_ = recover()
		}()
		b.most = 1
		_ = b.Apply(5, func(tx *WriteTx) error {
			things.Delete(tx, &thing{ID: "b"})
			panic("no")
		})
	}()
	checkConsistent(t, s)
	_ = s.Write(6, func(tx *WriteTx) error {
		if things.Get(tx.ReadTx, "b") == nil || things.Get(tx.ReadTx, "c") != nil {
			t.Error("a writer sees changes of an aborted batch")
		}
		return nil
	})
}

// TestCursor_PanicsOnARowThatWasChangedInPlace checks that a scan does not end at such a row. A writer that
// missed the rows behind it could grant a claim that conflicts with them.
func TestCursor_PanicsOnARowThatWasChangedInPlace(t *testing.T) {
	s := openDB()
	_ = s.Write(1, func(tx *WriteTx) error {
		for _, id := range []string{"a", "b"} {
			items.Put(tx, &item{ID: id, Space: "n", Group: "j"})
		}
		return nil
	})
	items.Get(s.Read(), "a").Group = "another"
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "table items: a row has changed") {
			t.Errorf("the panic says %q, want that a row has changed", text)
		}
		if err := s.Write(3, putThing("x")); err != nil {
			t.Errorf("a write after the panic failed: %v", err) // the lock of the writer must be free
		}
	}()
	_ = s.Write(2, func(tx *WriteTx) error {
		items.Delete(tx, &item{ID: "b"})
		rowTexts(itemsByGroup.Scan(tx.ReadTx, "n", "j"))
		return nil
	})
}
