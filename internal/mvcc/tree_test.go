package mvcc

import (
	"maps"
	"slices"
	"testing"
)

// TestOpen_MakesAMemdbTablePerIndex: each path has one of its own, with a short name.
func TestOpen_MakesAMemdbTablePerIndex(t *testing.T) {
	db := openDB()
	tables := db.now.Load().db.DBSchema().Tables
	var got []string
	for _, p := range db.schema.paths {
		if tables[p.tree] == nil || len(p.tree) != 2 {
			t.Errorf("%s has no memdb table %q of two letters", p.name, p.tree)
		}
		delete(tables, p.tree)
		got = append(got, p.name)
	}
	slices.Sort(got)
	if len(tables) > 0 {
		t.Errorf("memdb also has %q", slices.Sorted(maps.Keys(tables)))
	}
	want := []string{
		"archive",
		"items", "items.group", "items.list", "items.tag", "items.turn",
		"others",
		"pairs", "pairs.marked",
		"table_indexes",
		"things",
	}
	if !slices.Equal(got, want) {
		t.Errorf("memdb has trees of %q, want %q", got, want)
	}
}
