package mvcc

import (
	"maps"
	"slices"
	"testing"
)

// TestOpen_MakesAMemdbTablePerIndex: its name has the names of the table and of the index.
func TestOpen_MakesAMemdbTablePerIndex(t *testing.T) {
	tables := openDB().now.Load().db.DBSchema().Tables
	got := slices.Sorted(maps.Keys(tables))
	want := []string{
		"archive",
		"items", "items.group", "items.list", "items.tag", "items.turn",
		"others",
		"pairs", "pairs.marked",
		"table_indexes",
		"things",
	}
	if !slices.Equal(got, want) {
		t.Errorf("memdb has tables %q, want %q", got, want)
	}
}
