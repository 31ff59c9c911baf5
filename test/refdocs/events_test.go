package refdocs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/api/events"
	"berth/structs/event"
)

var typeSpan = regexp.MustCompile("`([^`]+)`")

// TestEvents_PageHasTheTopicsAndTypes compares the table of docs/events.md with the topics of the servers, in
// their order, and with the types of each.
func TestEvents_PageHasTheTopicsAndTypes(t *testing.T) {
	text, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| topic | types |")
	if !found {
		t.Fatal("docs/events.md has no table of topics")
	}
	table, _, _ = strings.Cut(table, "\n\n")

	want := append(slices.Clone(event.Topics), event.Stream)
	rows := strings.Split(strings.TrimSpace(table), "\n")[2:]
	if len(rows) != len(want) {
		t.Fatalf("the table has %d topics, want %d", len(rows), len(want))
	}
	for n, row := range rows {
		cells := strings.Split(row, "|")
		types := event.Types[want[n]]
		if want[n] == event.Stream {
			types = []string{events.Missed}
		}
		var shown []string
		for _, m := range typeSpan.FindAllStringSubmatch(cells[2], -1) {
			shown = append(shown, m[1])
		}
		if strings.TrimSpace(cells[1]) != "`"+string(want[n])+"`" || !slices.Equal(shown, types) {
			t.Errorf("the row %s has the types %q, want %s with %q", cells[1], shown, want[n], types)
		}
	}
}
