package show

import (
	"slices"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/storage"
)

// checkNoun fails unless a row of the noun has a text for each title.
func checkNoun[T any](t *testing.T, n Noun[T], item T) {
	t.Helper()
	if got, want := len(n.Row(item, ShortID)), strings.Count(n.Titles, "|")+1; got != want {
		t.Errorf("%s: a row has %d texts for %d titles", n.Titles, got, want)
	}
}

func TestNouns_HaveATextForEachTitle(t *testing.T) {
	checkNoun(t, Allocs, &structs.AllocListStub{})
	checkNoun(t, Claims, &structs.VolumeClaimStub{})
	checkNoun(t, Deployments, &structs.Deployment{})
	checkNoun(t, Nodes, &structs.NodeListStub{})
	checkNoun(t, Snapshots, &storage.VolumeSnapshot{})
	checkNoun(t, Volumes, &structs.CSIVolumeListStub{})
}

func TestPick_OrdersAndRenamesColumns(t *testing.T) {
	n := Noun[string]{
		Titles: "ID|Name|Modified",
		Row: func(item string, id func(string) string) []string {
			return []string{id(item), "name", "now"}
		},
	}
	c := n.Pick("Modified=Changed|ID")
	if want := []string{"Changed", "ID"}; !slices.Equal(c.Titles, want) {
		t.Errorf("got the titles %q, want %q", c.Titles, want)
	}
	if got, want := c.Texts("a", strings.ToUpper), []string{"now", "A"}; !slices.Equal(got, want) {
		t.Errorf("got the texts %q, want %q", got, want)
	}
}
