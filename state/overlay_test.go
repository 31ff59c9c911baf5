package state

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/structs"
)

// plainTable is what the table of evaluations ought to be: evaluations stand in every sort of index.
type plainTable map[string]*structs.Evaluation

// rows lists those whose key in an index begins so, in the order of these keys, each as often as it stands in it.
func (p plainTable) rows(keys func(*structs.Evaluation) [][]string, begins []string) string {
	type at struct {
		key key
		id  string
	}
	var all []at
	for id, e := range p {
		for _, parts := range keys(e) {
			if len(parts) >= len(begins) && slices.Equal(parts[:len(begins)], begins) {
				all = append(all, at{append(keyOf(parts...), keyOf(id)...), id})
			}
		}
	}
	slices.SortFunc(all, func(a, b at) int { return bytes.Compare(a.key, b.key) })
	all = slices.CompactFunc(all, func(a, b at) bool { return bytes.Equal(a.key, b.key) }) // one that names a key twice
	var out []string
	for _, a := range all {
		out = append(out, a.id+"="+p[a.id].StatusDescription)
	}
	return strings.Join(out, " ")
}

func found(rows func(func(*structs.Evaluation) bool)) string {
	return ids(rows, func(e *structs.Evaluation) string { return e.ID + "=" + e.StatusDescription })
}

// matches compares every way into the table with the plain one.
func (p plainTable) matches(t *rapid.T, tx *Read, when string) { p.agrees(t, tx, when) }

func (p plainTable) agrees(t rapid.TB, tx *Read, when string) {
	t.Helper()
	want := func(what, got, want string) {
		if got != want {
			t.Fatalf("%s, %s: %q, want %q", when, what, got, want)
		}
	}
	byID := func(e *structs.Evaluation) [][]string { return [][]string{{e.ID}} }
	byJob := func(e *structs.Evaluation) [][]string {
		if e.Terminal() {
			return [][]string{{e.Namespace, e.JobID, doneEval, e.NodeID}}
		}
		return [][]string{{e.Namespace, e.JobID, openEval, e.Status, e.NodeID}}
	}
	blocked := func(e *structs.Evaluation) (keys [][]string) {
		for _, k := range e.BlockedOn {
			if !e.Terminal() {
				keys = append(keys, []string{k, placeOf(e), ordered(e.CreateIndex)})
			}
		}
		return keys
	}
	want("all", found(evals.all(tx)), p.rows(byID, nil))
	want("by job", found(evalsByJob.all(tx)), p.rows(byJob, nil))
	want("blocked on anything", found(evalsByBlocked.all(tx)), p.rows(blocked, nil))
	for _, k := range []string{"a", "b", "ab", "c"} {
		want("by job "+k, found(evalsByJob.all(tx, "n", k)), p.rows(byJob, []string{"n", k}))
		want("blocked on "+k, found(evalsByBlocked.all(tx, k)), p.rows(blocked, []string{k}))
		got := ""
		if e := Eval(tx, k); e != nil {
			got = e.ID + "=" + e.StatusDescription
		}
		want("the one "+k, got, p.rows(byID, []string{k}))
		rest := func(yield func(*structs.Evaluation) bool) {
			for c := evals.from(tx, k); ; {
				if e := c.Next(); e == nil || !yield(e) {
					return
				}
			}
		}
		want("from "+k, found(rest), strings.TrimSpace(after(p.rows(byID, nil), k)))
		if e := evalsByJob.after(tx, "n", k); e != nil && (e.JobID <= k) {
			t.Fatalf("%s, after %s comes %s", when, k, e.JobID)
		}
	}
}

// after is what is left of a list of rows from an ID on.
func after(rows, id string) string {
	var out []string
	for _, r := range strings.Fields(rows) {
		if r[:strings.Index(r, "=")] >= id {
			out = append(out, r)
		}
	}
	return strings.Join(out, " ")
}

// TestBatchesAreAsIfEachEntryWereWrittenAtOnce: whatever is put, deleted and taken back, a writer sees what it has
// changed, and readers see it after the batch; however often the batch writes into the tree meanwhile.
func TestBatchesAreAsIfEachEntryWereWrittenAtOnce(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "ab", "c"})
	rapid.Check(t, func(t *rapid.T) {
		s, model, index := New(), plainTable{}, uint64(0)
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			b, before := s.Batch(), plainTable{}
			b.most = rapid.SampledFrom([]int{1, 2, 5, mostPending}).Draw(t, "most")
			for id, e := range model {
				before[id] = e
			}
			for range rapid.IntRange(1, 4).Draw(t, "entries") {
				index++
				fails, entry := rapid.Bool().Draw(t, "fails"), plainTable{}
				for id, e := range model {
					entry[id] = e
				}
				err := b.Apply(index, func(tx *Write) error {
					for n := range rapid.IntRange(0, 5).Draw(t, "changes") {
						id := name.Draw(t, "id")
						if rapid.IntRange(0, 3).Draw(t, "sort") == 0 {
							evals.delete(tx, &structs.Evaluation{ID: id})
							delete(entry, id)
						} else {
							e := &structs.Evaluation{ID: id, Namespace: "n", JobID: name.Draw(t, "job"), StatusDescription: fmt.Sprint(index, ".", n),
								Status:    rapid.SampledFrom([]string{structs.EvalBlocked, structs.EvalPending, structs.EvalComplete}).Draw(t, "status"),
								BlockedOn: rapid.SliceOfNDistinct(name, 0, 3, rapid.ID[string]).Draw(t, "on")}
							evals.put(tx, e)
							entry[id] = e
						}
						entry.matches(t, tx.Read, "inside the entry")
					}
					if fails {
						return errors.New("no")
					}
					return nil
				})
				if (err != nil) != fails {
					t.Fatal(err)
				}
				if !fails {
					model = entry
				}
			}
			before.matches(t, s.Read(), "before the commit")
			if rapid.IntRange(0, 4).Draw(t, "gives up") == 0 {
				b.Abort()
				model = before
			}
			b.Commit()
			model.matches(t, s.Read(), "after the batch")
			if n := countEntries(s.Read()); n != model.entries() {
				t.Fatalf("%d entries in the tree, want %d", n, model.entries())
			}
		}
	})
}

func countEntries(tx *Read) (n int) {
	for it := tx.under(key{}); ; {
		if it.Next() == nil {
			return n
		}
		n++
	}
}

// entries is how many entries the rows have in all indexes together.
func (p plainTable) entries() (n int) {
	for _, e := range p {
		n += 2
		if e.Status != structs.EvalBlocked {
			n++ // it has its turn
		}
		if !e.Terminal() {
			n += len(e.BlockedOn)
		}
	}
	return n
}

// TestACursorDoesNotSeeWhatComesLater: neither what is changed while it goes, nor another index behind its own.
func TestACursorDoesNotSeeWhatComesLater(t *testing.T) {
	s := New()
	b := s.Batch()
	b.most = 3
	_ = b.Apply(1, func(tx *Write) error {
		for _, id := range []string{"a", "b", "c"} {
			evals.put(tx, &structs.Evaluation{ID: id, Namespace: "n", JobID: "j", Status: structs.EvalPending})
		}
		var seen string
		for e := range evals.all(tx.Read) {
			seen += e.ID
			evals.delete(tx, &structs.Evaluation{ID: "b"})
			evals.put(tx, &structs.Evaluation{ID: "d", Namespace: "n", JobID: "j"})
		}
		if seen != "abc" {
			t.Errorf("saw %q", seen)
		}
		return nil
	})
	b.Commit()
	for c, n := evals.from(s.Read(), ""), 0; ; n++ {
		if c.Next() == nil {
			if n != 3 || c.Next() != nil {
				t.Errorf("saw %d", n)
			}
			return
		}
	}
}
