package mvcc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plainTable is a model of the table items: its rows by ID.
type plainTable map[string]*item

// rows lists the rows whose keys begin with the parts, in key order, each row once for each of its keys.
func (p plainTable) rows(keys func(*item) [][]string, begins []string) string {
	type at struct {
		key Key
		id  string
	}
	var all []at
	for id, e := range p {
		for _, parts := range keys(e) {
			if len(parts) >= len(begins) && slices.Equal(parts[:len(begins)], begins) {
				all = append(all, at{append(KeyOf(parts...), KeyOf(id)...), id})
			}
		}
	}
	slices.SortFunc(all, func(a, b at) int { return bytes.Compare(a.key, b.key) })
	// A row may name a key twice.
	all = slices.CompactFunc(all, func(a, b at) bool { return bytes.Equal(a.key, b.key) })
	var out []string
	for _, a := range all {
		out = append(out, a.id+"="+p[a.id].Text)
	}
	return strings.Join(out, " ")
}

// rowTexts lists rows as plainTable.rows does.
func rowTexts(rows func(func(*item) bool)) string {
	return render(rows, func(e *item) string { return e.ID + "=" + e.Text })
}

// checkRows compares each access path of the table with the model.
func (p plainTable) checkRows(t rapid.TB, tx *ReadTx, when string) {
	t.Helper()
	check := func(query, got, want string) {
		if got != want {
			t.Fatalf("%s, %s: got %q, want %q", when, query, got, want)
		}
	}
	byID := func(e *item) [][]string { return [][]string{{e.ID}} }
	byGroup := func(e *item) [][]string {
		if e.Status == done {
			return [][]string{{e.Space, e.Group, "done"}}
		}
		return [][]string{{e.Space, e.Group, "open", e.Status}}
	}
	byTag := func(e *item) (keys [][]string) {
		for _, k := range e.Tags {
			if e.Status != done {
				keys = append(keys, []string{k, Ordered(e.CreateIndex)})
			}
		}
		return keys
	}
	byList := func(e *item) [][]string {
		if e.Status == blocked {
			return nil
		}
		return [][]string{{e.Status, e.Space}}
	}
	check("the number of rows", fmt.Sprint(items.Len(tx)), fmt.Sprint(len(p)))
	check("all rows", rowTexts(items.Scan(tx)), p.rows(byID, nil))
	check("by group", rowTexts(itemsByGroup.Scan(tx)), p.rows(byGroup, nil))
	check("by list", rowTexts(itemsByList.Scan(tx)), p.rows(byList, nil))
	check("by tag", rowTexts(itemsByTag.Scan(tx)), p.rows(byTag, nil))
	next := sizes.Ascending(tx, blocked)
	for _, k := range []string{blocked, done, pending} {
		want := p.sizeOfList(k)
		check("sum of list "+k, fmt.Sprint(sizes.Of(tx, k), *next(k)), fmt.Sprint(want, want))
		check("list "+k, rowTexts(itemsByList.Scan(tx, k)), p.rows(byList, []string{k}))
		check("part of list "+k, rowTexts(itemsByList.Scan(tx, k, "n")), p.rows(byList, []string{k, "n"}))
	}
	for _, k := range []string{"a", "b", "ab", "c"} {
		check("group "+k, rowTexts(itemsByGroup.Scan(tx, "n", k)), p.rows(byGroup, []string{"n", k}))
		check("tag "+k, rowTexts(itemsByTag.Scan(tx, k)), p.rows(byTag, []string{k}))
		got := ""
		if e := items.Get(tx, k); e != nil {
			got = e.ID + "=" + e.Text
		}
		check("row "+k, got, p.rows(byID, []string{k}))
		rest := func(yield func(*item) bool) {
			for c := items.Seek(tx, k); ; {
				if e := c.Next(); e == nil || !yield(e) {
					return
				}
			}
		}
		check("from "+k, rowTexts(rest), strings.TrimSpace(rowsFrom(p.rows(byID, nil), k)))
		if e := itemsByGroup.After(tx, "n", k); e != nil && (e.Group <= k) {
			t.Fatalf("%s, after group %s: got group %s", when, k, e.Group)
		}
	}
}

// sizeOfList returns the sum over the rows of a list.
func (p plainTable) sizeOfList(status string) (sum size) {
	for _, e := range p {
		if e.Status == status && status != blocked {
			sum = sum.Plus(size{1, len(e.Text) + len(e.Tags)})
		}
	}
	return sum
}

// rowsFrom returns the part of a list of rows from an ID on.
func rowsFrom(rows, id string) string {
	var out []string
	for _, r := range strings.Fields(rows) {
		if r[:strings.Index(r, "=")] >= id {
			out = append(out, r)
		}
	}
	return strings.Join(out, " ")
}

// TestBatch_MatchesTheModel checks that a writer sees its own changes, that readers see them after the batch,
// and that a failed entry leaves none. The size of the overlay does not matter.
func TestBatch_MatchesTheModel(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "ab", "c"})
	rapid.Check(t, func(t *rapid.T) {
		s := openDB()
		model := plainTable{}
		index := uint64(0)
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			b := s.Begin()
			before := plainTable{}
			b.most = rapid.SampledFrom([]int{1, 2, 5, maxOverlay}).Draw(t, "most")
			for id, e := range model {
				before[id] = e
			}
			for range rapid.IntRange(1, 4).Draw(t, "entries") {
				index++
				fails := rapid.Bool().Draw(t, "fails")
				entry := plainTable{}
				for id, e := range model {
					entry[id] = e
				}
				err := b.Apply(index, func(tx *WriteTx) error {
					for n := range rapid.IntRange(0, 5).Draw(t, "changes") {
						id := name.Draw(t, "id")
						e := drawItem(t, name, id, fmt.Sprint(index, ".", n))
						if rapid.IntRange(0, 3).Draw(t, "sort") == 0 {
							e = nil
						}
						changeItem(t, tx, id, e)
						entry[id] = e
						if e == nil {
							delete(entry, id)
						}
						entry.checkRows(t, tx.ReadTx, "inside the entry")
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
			before.checkRows(t, s.Read(), "before the commit")
			if rapid.IntRange(0, 4).Draw(t, "aborts") == 0 {
				b.Abort()
				model = before
			}
			b.Commit()
			model.checkRows(t, s.Read(), "after the batch")
			if n := countEntries(s.Read()); n != model.entries() {
				t.Fatalf("the trees have %d entries, want %d", n, model.entries())
			}
		}
	})
}

// changeItem puts an item, or deletes the one with the ID if e is nil, with any function for it.
func changeItem(t *rapid.T, tx *WriteTx, id string, e *item) {
	before := items.Get(tx, id)
	switch edits := rapid.Bool().Draw(t, "edits"); {
	case edits:
		items.Edit(tx, func(now *item) *item {
			if now != before {
				t.Fatalf("Edit gives %v, the table has %v", now, before)
			}
			return e
		}, id)
	case e == nil:
		items.Delete(tx, &item{ID: id})
	case before == nil && rapid.Bool().Draw(t, "is new"):
		items.PutNew(tx, e, nil)
	default:
		items.Put(tx, e)
	}
	switch {
	case e == nil:
	case e.ModifyIndex != tx.Index, before != nil && e.CreateIndex != before.CreateIndex,
		before == nil && e.CreateIndex != tx.Index:
		t.Fatalf("at index %d the row has the indexes %+v, before %v", tx.Index, e.Indexes, before)
	}
}

func drawItem(t *rapid.T, name *rapid.Generator[string], id, text string) *item {
	return &item{
		ID:     id,
		Space:  "n",
		Group:  name.Draw(t, "group"),
		Text:   text,
		Status: rapid.SampledFrom([]string{blocked, pending, done}).Draw(t, "status"),
		Tags:   rapid.SliceOfNDistinct(name, 0, 3, rapid.ID[string]).Draw(t, "tags"),
	}
}

// scanAll reads all slots of an access path.
func (tx *ReadTx) scanAll(p *path) scan {
	if p.lists {
		return tx.scanList(pathKey{path: p})
	}
	return tx.scan(tx.txn.Get, pathKey{path: p})
}

func countEntries(tx *ReadTx) (n int) {
	for _, p := range tx.view.schema.paths {
		for it := tx.scanAll(p); it.Next() != nil; {
			n++
		}
	}
	return n
}

// entries returns the number of keys that the rows have in all indexes.
func (p plainTable) entries() (n int) {
	for _, e := range p {
		n += 2
		if e.Status != blocked {
			n += 2 // in the indexes turn and list
		}
		if e.Status != done {
			n += len(e.Tags)
		}
	}
	return n
}

// TestCursor_DoesNotSeeLaterChanges: it does not see rows of the next index either.
func TestCursor_DoesNotSeeLaterChanges(t *testing.T) {
	s := openDB()
	b := s.Begin()
	b.most = 3
	_ = b.Apply(1, func(tx *WriteTx) error {
		for _, id := range []string{"a", "b", "c"} {
			items.Put(tx, &item{ID: id, Space: "n", Group: "j", Status: pending})
		}
		var seen string
		for e := range items.Scan(tx.ReadTx) {
			seen += e.ID
			items.Delete(tx, &item{ID: "b"})
			items.Put(tx, &item{ID: "d", Space: "n", Group: "j"})
		}
		if seen != "abc" {
			t.Errorf("the scan saw %q, want %q", seen, "abc")
		}
		return nil
	})
	b.Commit()
	for c, n := items.Seek(s.Read(), ""), 0; ; n++ {
		if c.Next() == nil {
			if n != 3 || c.Next() != nil {
				t.Errorf("the cursor saw %d rows, want 3", n)
			}
			return
		}
	}
}
