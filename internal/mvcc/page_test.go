package mvcc

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRange_IsAPartOfTheWhole: pages of tables and indexes, in both directions, equal parts of scans.
func TestRange_IsAPartOfTheWhole(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "aa", "ab", "b", "b\x00", "ba", "c", "\x01"})
	rapid.Check(t, func(rt *rapid.T) {
		db := openDB()
		_ = db.Write(1, func(tx *WriteTx) error {
			for range rapid.IntRange(0, 12).Draw(rt, "rows") {
				id := name.Draw(rt, "id")
				archive.Put(tx, &item{ID: id, Text: name.Draw(rt, "text")})
				if rapid.Bool().Draw(rt, "archived only") {
					continue
				}
				pairs.Put(tx, &pair{A: name.Draw(rt, "a"), B: id, Holder: name.Draw(rt, "holder"), Marked: true})
				items.Put(tx, &item{ID: id, Space: "s", Group: name.Draw(rt, "group"), Status: pending})
			}
			return nil
		})
		tx := db.Read()
		p := Page{Reverse: rapid.Bool().Draw(rt, "reverse")}
		var scope []string
		if rapid.Bool().Draw(rt, "in a scope") {
			scope = []string{name.Draw(rt, "scope")}
		}
		if rapid.Bool().Draw(rt, "from") {
			p.From = append(slices.Clone(scope), name.Draw(rt, "begin"))
		}
		wantPage(rt, tx, &pairs.ownIndex, scope, p, func(p *pair) []string { return []string{p.A, p.B, p.C} })
		wantPage(rt, tx, markedPairs, scope, p, func(p *pair) []string { return []string{p.Holder, p.A, p.B, p.C} })
		wantPage(rt, tx, &items.ownIndex, nil, p, func(i *item) []string { return []string{i.ID} })
		wantPage(rt, tx, &archive.ownIndex, scope, p, func(i *item) []string { return []string{i.ID, i.Text} })
	})
}

// wantPage compares a page with the rows of a scan.
func wantPage[R interface {
	comparable
	Record
}](t *rapid.T, tx *ReadTx, x *Index[R], scope []string, p Page, key func(R) []string) {
	want := slices.Collect(x.Scan(tx, scope...))
	if p.Reverse {
		slices.Reverse(want)
	}
	want = slices.DeleteFunc(want, func(r R) bool {
		order := slices.Compare(key(r), p.From)
		begins := len(key(r)) >= len(p.From) && slices.Equal(key(r)[:len(p.From)], p.From)
		return p.From != nil && !begins && (order < 0 && !p.Reverse || order > 0 && p.Reverse)
	})
	got := slices.Collect(x.Range(tx, KeyOf(scope...), p))
	if !slices.Equal(got, want) {
		text := func(r R) string { return strings.Join(key(r), "/") }
		t.Fatalf("%s in %q from %+v: got %q, want %q", x.index.name, scope, p,
			render(slices.Values(got), text), render(slices.Values(want), text))
	}
}

// TestSeek_StopsAtTheEndOfTheIndex: another table has rows of the same type.
func TestSeek_StopsAtTheEndOfTheIndex(t *testing.T) {
	db := openDB()
	_ = db.Write(1, func(tx *WriteTx) error {
		archive.Put(tx, &item{ID: "archived", Text: "1"})
		return nil
	})
	tx := db.Read()
	for _, p := range []Page{{From: []string{"a"}}, {Reverse: true}, {Reverse: true, From: []string{"z"}}} {
		if i := items.RangeFunc(tx, KeyOf(), p)(); i != nil {
			t.Errorf("page %+v of an empty table has row %s", p, i.ID)
		}
	}
	if i := items.Seek(tx).Next(); i != nil {
		t.Errorf("an empty table has row %s", i.ID)
	}
}
