package mvcc

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKeyOf_SortsAsItsParts(t *testing.T) {
	part := rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 2, 'a', 'b', 0xff}), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(part, 1, 3).Draw(t, "a")
		b := rapid.SliceOfN(part, 1, 3).Draw(t, "b")
		x := KeyOf(a...)
		y := KeyOf(b...)
		if slices.Compare(a, b) != bytes.Compare(x, y) {
			t.Fatalf("%q and %q compare %d, their keys %d", a, b, slices.Compare(a, b), bytes.Compare(x, y))
		}
		leads := len(a) <= len(b) && slices.Equal(a, b[:len(a)])
		if leads != bytes.HasPrefix(y, x) {
			t.Fatalf("%q leads %q: %v, of their keys: %v", a, b, leads, !leads)
		}
		last := len(a) - 1
		if len(b) < len(a) {
			return // all keys of an index have the same number of parts
		}
		begins := slices.Equal(a[:last], b[:last]) && strings.HasPrefix(b[last], a[last])
		if begins != bytes.HasPrefix(y, x[:len(x)-1]) {
			t.Fatalf("%q is a prefix of %q: %v, of their keys: %v", a, b, begins, !begins)
		}
	})
}

func TestOrdered_SortsAsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Uint64().Draw(t, "a")
		b := rapid.Uint64().Draw(t, "b")
		if (a < b) != (bytes.Compare(KeyOf(Ordered(a)), KeyOf(Ordered(b))) < 0) {
			t.Fatalf("%d and %d: their keys have another order", a, b)
		}
	})
}

func TestScan_SelectsByLeadingParts(t *testing.T) {
	db := openDB()
	_ = db.Write(1, func(tx *WriteTx) error {
		for _, b := range []string{"data", "data2"} {
			pairs.Put(tx, &pair{A: "default", B: b})
		}
		return nil
	})
	text := func(p *pair) string { return p.B }
	tx := db.Read()
	for _, c := range []struct {
		name, got, want string
	}{
		{"whole first part", render(pairs.Scan(tx, "default"), text), "data data2"},
		{"part of the first part", render(pairs.Scan(tx, "def"), text), ""},
		{"both parts", render(pairs.Scan(tx, "default", "data"), text), "data"},
		{"prefix", render(pairs.Prefix(tx, "default", "da"), text), "data data2"},
		{"longer prefix", render(pairs.Prefix(tx, "default", "data2"), text), "data2"},
		{"prefix of nothing", render(pairs.Prefix(tx, "default", "x"), text), ""},
		{"no parts", render(pairs.Scan(tx), text), "data data2"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
		}
	}
	if pairs.Get(tx, "default", "dat", "") != nil {
		t.Error("Get finds a row by a prefix of its key")
	}
}

func TestIndexes_FollowTheRow(t *testing.T) {
	db := openDB()
	index := uint64(10)
	put := func(status string, tags ...string) {
		index++
		_ = db.Write(index, func(tx *WriteTx) error {
			items.Put(tx, &item{ID: "e", Group: "j", Status: status, Tags: tags})
			return nil
		})
	}
	wantTags := func(want string) {
		t.Helper()
		var got []string
		for _, tag := range []string{"a", "b", "c"} {
			if itemsByTag.Has(db.Read(), tag) {
				got = append(got, tag)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("at index %d: got the row by tags %q, want %q", index, got, want)
		}
	}
	put(blocked, "a", "b")
	wantTags("a b")
	put(blocked, "b", "c")
	wantTags("b c")
	put(done, "b", "c")
	wantTags("")
	if e := items.Get(db.Read(), "e"); e.CreateIndex != index-2 || e.ModifyIndex != index {
		t.Errorf("the row is stamped %d, %d; want %d, %d", e.CreateIndex, e.ModifyIndex, index-2, index)
	}
}
