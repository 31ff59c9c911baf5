package state

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/structs"
)

func TestKeysSortAsTheirParts(t *testing.T) {
	part := rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 2, 'a', 'b', 0xff}), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOfN(part, 1, 3).Draw(t, "a"), rapid.SliceOfN(part, 1, 3).Draw(t, "b")
		x, y := keyOf(a...), keyOf(b...)
		if slices.Compare(a, b) != bytes.Compare(x, y) {
			t.Fatalf("%q and %q compare %d, their keys %d", a, b, slices.Compare(a, b), bytes.Compare(x, y))
		}
		leads := len(a) <= len(b) && slices.Equal(a, b[:len(a)])
		if leads != bytes.HasPrefix(y, x) {
			t.Fatalf("%q leads %q: %v, their keys: %v", a, b, leads, !leads)
		}
		last := len(a) - 1
		if len(b) < len(a) {
			return // the keys of one index are all of one length
		}
		begins := slices.Equal(a[:last], b[:last]) && strings.HasPrefix(b[last], a[last])
		if begins != bytes.HasPrefix(y, x[:len(x)-1]) {
			t.Fatalf("%q begins %q: %v, their keys: %v", a, b, begins, !begins)
		}
	})
}

func TestOrderedNumbersSortAsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		if (a < b) != (bytes.Compare(keyOf(ordered(a)), keyOf(ordered(b))) < 0) {
			t.Fatalf("%d and %d", a, b)
		}
	})
}

func TestLeadingPartsSelectAndOthersDoNot(t *testing.T) {
	w := newWorld(t)
	w.volume("data", "p")
	w.volume("data2", "p")
	ids := func(ns, prefix string) (out []string) {
		for v := range Volumes(w.s.Read(), ns, prefix) {
			out = append(out, v.ID)
		}
		return out
	}
	for _, c := range []struct {
		ns, prefix string
		want       []string
	}{
		{"default", "", []string{"data", "data2"}},
		{"default", "data2", []string{"data2"}},
		{"*", "data", []string{"data", "data2"}},
		{"*", "x", nil},
		{"def", "", nil}, // a namespace is matched whole
	} {
		if got := ids(c.ns, c.prefix); !slices.Equal(got, c.want) {
			t.Errorf("volumes in %q beginning with %q: %v, want %v", c.ns, c.prefix, got, c.want)
		}
	}
	if Volume(w.s.Read(), "default", "dat") != nil {
		t.Error("get took a prefix for the key")
	}
}

func TestSparseAndManyIndexesFollowTheRow(t *testing.T) {
	w := newWorld(t)
	put := func(status string, on ...string) {
		w.index++
		_ = w.s.Write(w.index, func(tx *Write) error {
			evals.put(tx, &structs.Evaluation{ID: "e", JobID: "j", Status: status, BlockedOn: on})
			return nil
		})
	}
	blocked := func(key string) bool { return evalsByBlocked.has(w.s.Read(), key) }
	put(structs.EvalBlocked, "a", "b")
	if !blocked("a") || !blocked("b") || blocked("c") {
		t.Error("not found under its keys")
	}
	put(structs.EvalBlocked, "b", "c")
	if blocked("a") || !blocked("b") || !blocked("c") {
		t.Error("keys did not follow the row")
	}
	put(structs.EvalComplete, "b", "c")
	if blocked("b") || blocked("c") {
		t.Error("a row that is out of the index is found in it")
	}
	if e := Eval(w.s.Read(), "e"); e.CreateIndex != w.index-2 || e.ModifyIndex != w.index {
		t.Errorf("stamped %d, %d at index %d", e.CreateIndex, e.ModifyIndex, w.index)
	}
}

func TestATableNeedsStampedRows(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a table of strings was made")
		}
	}()
	newTable("x", func(s *string) key { return keyOf(*s) })
}
