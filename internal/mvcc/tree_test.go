package mvcc

import (
	"maps"
	"slices"
	"testing"
)

// TestOpen_MakesAMemdbTablePerIndex with the name of the table and that of the index.
func TestOpen_MakesAMemdbTablePerIndex(t *testing.T) {
	tables := open().now.Load().db.DBSchema().Tables
	got := slices.Sorted(maps.Keys(tables))
	want := []string{
		"archive",
		"items", "items.group", "items.tag", "items.turn",
		"others",
		"pairs", "pairs.marked",
		"table_indexes",
		"things",
	}
	if !slices.Equal(got, want) {
		t.Errorf("memdb has the tables %q, want %q", got, want)
	}
}
