package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"berth/structs"
)

// bigWorld makes batches of so many changes that they are written into the tree while entries are under way.
type bigWorld struct {
	t     *testing.T
	rand  *rand.Rand
	model plainTable
}

var bigNames = []string{"a", "b", "ab", "c"}

func (w *bigWorld) name() string { return bigNames[w.rand.IntN(len(bigNames))] }

func (w *bigWorld) id() string {
	if w.rand.IntN(10) == 0 {
		return w.name()
	}
	return fmt.Sprint("b", w.rand.IntN(150))
}

// change puts or deletes some row.
func (w *bigWorld) change(tx *Write) {
	id := w.id()
	if w.rand.IntN(4) == 0 {
		evals.delete(tx, &structs.Evaluation{ID: id})
		delete(w.model, id)
		return
	}
	e := &structs.Evaluation{ID: id, Namespace: "n", JobID: w.name(), StatusDescription: fmt.Sprint(tx.Index, ".", w.rand.Uint32()),
		Status: []string{structs.EvalBlocked, structs.EvalPending, structs.EvalComplete}[w.rand.IntN(3)]}
	for range w.rand.IntN(4) {
		e.BlockedOn = append(e.BlockedOn, w.name()) // the same twice, too
	}
	evals.put(tx, e)
	w.model[id] = e
}

// scans are the ways through the table that a writer may take while it writes.
func (w *bigWorld) scans() []func(*Read) func(func(*structs.Evaluation) bool) {
	name := w.name()
	return []func(*Read) func(func(*structs.Evaluation) bool){
		func(tx *Read) func(func(*structs.Evaluation) bool) { return evals.all(tx) },
		func(tx *Read) func(func(*structs.Evaluation) bool) { return evals.prefix(tx, "b1") },
		func(tx *Read) func(func(*structs.Evaluation) bool) { return evalsByJob.all(tx, "n", name) },
		func(tx *Read) func(func(*structs.Evaluation) bool) { return evalsByTurn.all(tx) },
		func(tx *Read) func(func(*structs.Evaluation) bool) { return evalsByBlocked.all(tx) },
		func(tx *Read) func(func(*structs.Evaluation) bool) { return evalsByBlocked.all(tx, name) },
		func(tx *Read) func(func(*structs.Evaluation) bool) {
			return func(yield func(*structs.Evaluation) bool) {
				for c := evalsByJob.from(tx, "n", name); ; {
					if e := c.Next(); e == nil || !yield(e) {
						return
					}
				}
			}
		},
	}
}

// scan goes through the table while it changes it: what it sees is what it would have seen at its beginning.
func (w *bigWorld) scan(tx *Write) {
	for n, rows := range w.scans() {
		want := found(rows(tx.Read))
		var got []string
		for e := range rows(tx.Read) {
			got = append(got, e.ID+"="+e.StatusDescription)
			if w.rand.IntN(2) == 0 {
				evals.delete(tx, e)
				delete(w.model, e.ID)
			}
			w.change(tx)
		}
		if strings.Join(got, " ") != want {
			w.t.Fatalf("scan %d at %d saw %q, want %q", n, tx.Index, got, want)
		}
	}
}

// entry changes very much, and fails now and then.
func (w *bigWorld) entry(tx *Write) error {
	for range 4 {
		for range w.rand.IntN(200) {
			w.change(tx)
		}
		w.model.agrees(w.t, tx.Read, "inside the entry")
		w.scan(tx)
	}
	w.model.agrees(w.t, tx.Read, "at the end of the entry")
	if w.rand.IntN(3) == 0 {
		return errors.New("no")
	}
	return nil
}

// remembered holds what the writer remembers against what is in the tree.
func remembered(t *testing.T, s *Store) (known int) {
	for _, e := range s.spare.memo {
		if len(e.key) == 0 {
			continue
		}
		known++
		if is := s.Read().lookup(e.key); is != e.cell {
			t.Fatalf("%q is remembered as %v and is %v", e.key, e.cell, is)
		}
	}
	return known
}

// TestBigBatchesAreAsIfEachEntryWereWrittenAtOnce: entries that change more than is kept pending, some of which
// fail, and batches that are given up.
func TestBigBatchesAreAsIfEachEntryWereWrittenAtOnce(t *testing.T) {
	spilled, known := 0, 0
	for seed := range uint64(3) {
		s, w, index := New(), &bigWorld{t, rand.New(rand.NewPCG(seed, 7)), plainTable{}}, uint64(0)
		for range 6 {
			b, before := s.Batch(), maps.Clone(w.model)
			if w.rand.IntN(2) == 0 {
				b.most = 1 + w.rand.IntN(60)
			}
			for range 1 + w.rand.IntN(4) {
				index++
				was := maps.Clone(w.model)
				if b.Apply(index, w.entry) != nil {
					w.model = was
				}
			}
			spilled += b.written
			if w.rand.IntN(4) == 0 {
				b.Abort()
				w.model = before
			}
			b.Commit()
			w.model.agrees(t, s.Read(), "after the batch")
			known += remembered(t, s)
			consistent(t, s)
		}
	}
	if spilled < 50 || known < 50 {
		t.Errorf("written %d times while entries were under way, %d rows remembered", spilled, known)
	}
}

// TestWhatIsRememberedGoesWithTheState: a restore, and a batch that is given up after it wrote.
func TestWhatIsRememberedGoesWithTheState(t *testing.T) {
	s, other := New(), New()
	_ = s.Write(1, putNode("a"))
	_ = s.Write(2, func(tx *Write) error { Node(tx.Read, "a"); Node(tx.Read, "b"); return nil })
	if remembered(t, s) == 0 {
		t.Error("nothing is remembered")
	}
	_ = other.Write(1, putNode("b"))
	if err := s.Load(strings.NewReader(string(saved(t, other)))); err != nil {
		t.Fatal(err)
	}
	remembered(t, s)
	consistent(t, s)
	_ = s.Write(3, func(tx *Write) error {
		if Node(tx.Read, "a") != nil || Node(tx.Read, "b") == nil {
			t.Error("a writer sees what was before the restore")
		}
		return nil
	})
	b := s.Batch()
	b.most = 1
	_ = b.Apply(4, putNode("c"))
	b.Abort()
	remembered(t, s)
	consistent(t, s)
	func() {
		b := s.Batch()
		defer func() { b.Abort(); _ = recover() }()
		b.most = 1
		_ = b.Apply(5, func(tx *Write) error { nodes.delete(tx, &structs.Node{ID: "b"}); panic("no") })
	}()
	remembered(t, s)
	consistent(t, s)
	_ = s.Write(6, func(tx *Write) error {
		if Node(tx.Read, "b") == nil || Node(tx.Read, "c") != nil {
			t.Error("a writer sees what was given up")
		}
		long := strings.Repeat("x", longestMemo)
		Node(tx.Read, long)
		if _, known := tx.memo.at(append(key{nodes.lead}, keyOf(long)[1:]...)); known {
			t.Error("a key of any length is remembered")
		}
		return nil
	})
}

// TestARowThatWasChangedInPlaceIsNoEnd of a scan: a writer that missed the rows behind it might grant what it must not.
func TestARowThatWasChangedInPlaceIsNoEnd(t *testing.T) {
	s := New()
	_ = s.Write(1, func(tx *Write) error {
		for _, id := range []string{"a", "b"} {
			evals.put(tx, &structs.Evaluation{ID: id, Namespace: "n", JobID: "j"})
		}
		return nil
	})
	Eval(s.Read(), "a").JobID = "another"
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "a row of evals has changed") {
			t.Errorf("it said %q", said)
		}
		if err := s.Write(3, putNode("x")); err != nil {
			t.Error(err) // the writer's lock is free
		}
	}()
	_ = s.Write(2, func(tx *Write) error {
		evals.delete(tx, &structs.Evaluation{ID: "b"})
		found(evalsByJob.all(tx.Read, "n", "j"))
		return nil
	})
}
