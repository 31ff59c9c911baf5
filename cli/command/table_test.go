package command

import (
	"reflect"
	"strings"
	"testing"
)

func TestFitColumns_NarrowsTheWidestColumns(t *testing.T) {
	for _, c := range []struct {
		widths []int
		whole  int // how many of the first columns are never cut
		width  int
		want   []int
	}{
		{[]int{8, 100}, 0, 0, []int{8, 100}},
		{[]int{8, 20}, 0, 80, []int{8, 20}},
		{[]int{8, 100}, 0, 80, []int{8, 70}},
		{[]int{30, 60, 40}, 0, 100, []int{30, 33, 33}},
		{[]int{8, 8, 50}, 0, 10, []int{8, 8, 8}},
		{[]int{50, 60}, 0, 20, []int{9, 9}},
		{[]int{36, 30, 30}, 1, 80, []int{36, 20, 20}},
		{[]int{36, 30}, 2, 40, []int{36, 30}},
	} {
		var columns []*column
		for i, width := range c.widths {
			title := "Name"
			if i < c.whole {
				title = "ID"
			}
			columns = append(columns, &column{cells: []string{title}, width: width})
		}
		fitColumns(columns, c.width)
		var got []int
		for _, column := range columns {
			got = append(got, column.width)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v in %d characters: got %v, want %v",
				c.widths, c.width, got, c.want)
		}
	}
	if got := CutCell("größer", 4); got != "grö…" {
		t.Errorf("got %q, want %q", got, "grö…")
	}
}

func TestDropColumns_DropsSpareColumnsAndPutsTextsBelow(t *testing.T) {
	const titles = "ID|Modified|State|Last Error"
	rows := Grid{
		{"a", "16m24s ago", "ready", ""},
		{"b", "3s ago", "attaching", "the array is full"},
	}
	for width, want := range map[int]string{
		0:  "ID,Modified,State,Last Error",
		44: "ID,Modified,State,Last Error",
		43: "ID,State,Last Error",
		32: "ID,State,Last Error",
		31: "ID,State",
		4:  "ID,State",
	} {
		columns, texts := dropColumns(columnsOf(titles, rows), width)
		var shown []string
		for _, column := range columns {
			shown = append(shown, column.cells[0])
		}
		if got := strings.Join(shown, ","); got != want {
			t.Errorf("width %d: got %s, want %s", width, got, want)
		}
		below := texts != nil && strings.Join(texts.cells, "|") == "Last Error||the array is full"
		if below != (width == 31 || width == 4) {
			t.Errorf("width %d: got %+v below the rows", width, texts)
		}
	}
}
