package show

import (
	"fmt"
	"slices"
	"strings"
)

// Noun has the columns of the things of a kind: their titles, which | separates, and the texts of a thing
// under them. id writes an ID whole or short.
type Noun[T any] struct {
	Titles string
	Row    func(item T, id func(string) string) []string
}

// Columns are some columns of a noun, in an order of their own.
type Columns[T any] struct {
	Titles []string
	places []int // in the row of the noun
	row    func(item T, id func(string) string) []string
}

// Pick returns the columns with these titles, which | separates. "Modified=Changed" is the column Modified
// under the title Changed. It panics if the noun lacks a column.
func (n Noun[T]) Pick(titles string) Columns[T] {
	all := strings.Split(n.Titles, "|")
	picked := Columns[T]{row: n.Row}
	for title := range strings.SplitSeq(titles, "|") {
		column, other, renamed := strings.Cut(title, "=")
		place := slices.Index(all, column)
		if place < 0 {
			panic(fmt.Sprintf("there is no column %q in %s", column, n.Titles))
		}
		if renamed {
			column = other
		}
		picked.Titles = append(picked.Titles, column)
		picked.places = append(picked.places, place)
	}
	return picked
}

// Texts returns the texts of a thing under the titles.
func (c Columns[T]) Texts(item T, id func(string) string) []string {
	row := c.row(item, id)
	texts := make([]string, len(c.places))
	for i, place := range c.places {
		texts[i] = row[place]
	}
	return texts
}
