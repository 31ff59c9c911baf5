package places_test

import (
	"context"
	"strings"
	"testing"

	"berth/endpoints/places"
	"berth/endpoints/places/placestest"
	"berth/server/nodeconn"
	"berth/state"
)

func TestPage_WarnsOfAPlaceThatIsDown(t *testing.T) {
	s := state.New()
	placestest.HalfDown(t, s)
	list := places.List[string]{
		Kind:  "things",
		Key:   func(s string) string { return s },
		Bytes: func(s string) int { return len(s) },
		Call: func(_ context.Context, nodes []string, _ string, _ int32) (a places.Answer[string], err error) {
			if len(nodes) == 0 {
				return a, nodeconn.ErrNoController
			}
			return places.Answer[string]{Entries: []string{"of " + nodes[0]}}, nil
		},
	}
	page, err := list.Page(t.Context(), s.Read(), "p", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Entries) != 1 || page.Entries[0] != "of n1" || len(page.Warnings) != 1 ||
		!strings.HasPrefix(page.Warnings[0], "the things in node=n2 (controller on node n2) are not listed: ") {
		t.Errorf("got %q and the warnings %q", page.Entries, page.Warnings)
	}
}
