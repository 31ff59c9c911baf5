// Package views makes rows of the API into what the page shows: tables, problems and pictures. It calls
// nothing and knows no HTML, so its tests compare values.
package views

import (
	"cmp"
	"fmt"
	"net/url"

	"berth/api/show"
	"berth/structs"
)

// Tone is the colour of a text. Each text says the same in words.
type Tone string

// The tones.
const (
	Plain Tone = ""
	Good  Tone = "good" // it is as it should be
	Busy  Tone = "busy" // it changes, or waits
	Bad   Tone = "bad"  // somebody has to look at it
)

// Cell is one field of a table. Link is a path of the page, "" for none.
type Cell struct {
	Text string
	Link string
	Tone Tone
}

// Row is a line of a table. The first cell names it.
type Row struct {
	Key   string // of the row within its table; it is unique
	Cells []Cell
}

// Table has the rows of one kind.
type Table struct {
	Caption string
	Columns []string
	Rows    []Row
	Empty   string // the text in place of no rows
	More    string // the path of the list with the rest of the rows, "" if the table has them all
}

// marks are what the page adds to the texts of a row, by the titles of the columns: links, tones, and texts
// that stand in place of the column's own.
type marks map[string]Cell

// cells makes the cells of a thing.
func cells[T any](columns show.Columns[T], item T, m marks) []Cell {
	row := make([]Cell, len(columns.Titles))
	for i, s := range columns.Texts(item, show.ShortID) {
		row[i] = m[columns.Titles[i]]
		row[i].Text = cmp.Or(row[i].Text, s)
	}
	return row
}

// toneIf returns a tone under a condition.
func toneIf(tone Tone, condition bool) Tone {
	if condition {
		return tone
	}
	return Plain
}

// text makes a cell without a tone.
func text(s string) Cell { return Cell{Text: s} }

// number makes a cell of a number.
func number(n int) Cell { return Cell{Text: fmt.Sprint(n)} }

// age makes a cell of the distance of a time (UnixNano) from now.
func age(nanos int64) Cell { return Cell{Text: show.Age(nanos)} }

// outOf makes a cell of a part and a total.
func outOf(part, all int) Cell {
	c := Cell{Text: show.Count(part, all), Tone: Good}
	switch {
	case all == 0:
		c.Tone = Plain
	case part < all:
		c.Tone = Bad
	}
	return c
}

// toned makes a cell whose tone a table gives to its text. A text that is not in the table has none.
func toned(s string, tones map[string]Tone) Cell {
	return Cell{Text: s, Tone: tones[s]}
}

// link makes a cell that leads to a path.
func link(s, to string) Cell { return Cell{Text: s, Link: to} }

// The paths of the views of one thing.
const (
	VolumePath = "/ui/volume"
	JobPath    = "/ui/job"
	AllocPath  = "/ui/allocation"
	NodePath   = "/ui/node"
	PluginPath = "/ui/plugin"
)

// To returns the path to a thing of a namespace, "" for one without. IDs have any characters, so they are
// parameters and not parts of the path.
func To(path, namespace, id string) string {
	v := url.Values{"id": {id}}
	if namespace != "" {
		v.Set("namespace", namespace)
	}
	return path + "?" + v.Encode()
}

// linkTo makes a cell with the short form of an ID that leads to its view.
func linkTo(path, namespace, id string) Cell {
	if id == "" {
		return Cell{}
	}
	return link(structs.ShortID(id), To(path, namespace, id))
}
