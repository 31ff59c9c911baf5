package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/structs/cluster"
)

var begin = time.Unix(1_700_000_000, 0)

func names(f *rejectedNodes, at time.Time) (all []string) {
	for _, n := range f.List(at) {
		all = append(all, n.Name)
	}
	return all
}

func note(f *rejectedNodes, id string, at time.Time) {
	f.Note(cluster.ForeignNode{ID: id, Name: "name-" + id, Asked: at.UnixNano()})
}

func TestList_HasTheNodesThatAskedWithinItsTime(t *testing.T) {
	var f rejectedNodes
	note(&f, "b", begin)
	note(&f, "a", begin.Add(time.Minute))
	note(&f, "c", begin.Add(time.Minute))
	f.Forget("c")
	if got := names(&f, begin.Add(cluster.ForeignNodeFor)); !slices.Equal(got, []string{"name-a", "name-b"}) {
		t.Errorf("got %q, want a and b", got)
	}
	if got := names(&f, begin.Add(cluster.ForeignNodeFor+time.Second)); !slices.Equal(got, []string{"name-a"}) {
		t.Errorf("after the time of b: got %q, want a", got)
	}
	note(&f, "a", begin.Add(cluster.ForeignNodeFor))
	if got := names(&f, begin.Add(2*cluster.ForeignNodeFor)); !slices.Equal(got, []string{"name-a"}) {
		t.Errorf("a asked again: got %q", got)
	}
}

func TestNote_IsBounded(t *testing.T) {
	var f rejectedNodes
	for i := range cluster.MaxForeignNodes {
		note(&f, fmt.Sprintf("%03d", i), begin.Add(time.Duration(i)*time.Second))
	}
	note(&f, "063", begin.Add(time.Minute)) // known: it needs no place
	if got := names(&f, begin); len(got) != cluster.MaxForeignNodes {
		t.Errorf("%d nodes, want %d", len(got), cluster.MaxForeignNodes)
	}
	note(&f, "000", begin.Add(time.Minute)) // and then not the one that has not asked for the longest time
	note(&f, "new", begin.Add(time.Minute))
	got := names(&f, begin)
	if len(got) != cluster.MaxForeignNodes || slices.Contains(got, "name-001") ||
		!slices.Contains(got, "name-000") || !slices.Contains(got, "name-new") {
		t.Errorf("%d nodes, want %d without the one that has not asked for the longest time: %q",
			len(got), cluster.MaxForeignNodes, got)
	}
}
