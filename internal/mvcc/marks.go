package mvcc

import (
	"math/bits"
	"slices"
)

// tableMarks has the mark of each table by its number. It is a persistent vector of two levels: a copy of a
// value shares its pages, and a writer replaces the pages of the tables that it changes. So a write copies a
// page for each eight tables that it changes, and a pointer for each eight tables of the schema.
type tableMarks struct {
	writing uint64 // the writing that made the list of pages and may change it
	pages   []*markPage
}

// tableMark is what a view knows of a table besides its rows.
type tableMark struct {
	newest uint64 // index of the last entry that changed the table
	rows   int
}

// pageMarks is the number of tables of a page.
const pageMarks = 8

type markPage struct {
	writing uint64 // the writing that made the page and may change it
	at      [pageMarks]tableMark
}

// newTableMarks returns the marks of tables without rows.
func newTableMarks(tables int) tableMarks {
	pages := make([]*markPage, (tables+pageMarks-1)/pageMarks)
	for i := range pages {
		pages[i] = &markPage{}
	}
	return tableMarks{pages: pages}
}

// of returns the mark of a table.
func (m *tableMarks) of(table int) tableMark {
	return m.pages[table/pageMarks].at[table%pageMarks]
}

// edit returns the mark of a table for a writing to change. It changes this value of the marks alone, not the
// marks of which it was copied.
func (m *tableMarks) edit(writing uint64, table int) *tableMark {
	if m.writing != writing {
		m.writing = writing
		m.pages = slices.Clone(m.pages)
	}
	page := &m.pages[table/pageMarks]
	if (*page).writing != writing {
		*page = new(**page)
		(*page).writing = writing
	}
	return &(*page).at[table%pageMarks]
}

// tableSet is a set of numbers of tables. Any number has a place. The first tables need no memory besides.
type tableSet struct {
	first [4]uint64
	more  []uint64 // of the tables after these
}

// word returns the word with the bit of a table, nil if the set has none.
func (s *tableSet) word(table int) *uint64 {
	n := table / 64
	if n < len(s.first) {
		return &s.first[n]
	}
	n -= len(s.first)
	if n < len(s.more) {
		return &s.more[n]
	}
	return nil
}

func (s *tableSet) add(table int) {
	w := s.word(table)
	if w == nil {
		s.more = append(s.more, make([]uint64, table/64-len(s.first)+1-len(s.more))...)
		w = s.word(table)
	}
	*w |= 1 << (table % 64)
}

func (s *tableSet) has(table int) bool {
	w := s.word(table)
	return w != nil && *w&(1<<(table%64)) != 0
}

// each calls do with the numbers of the set in ascending order.
func (s *tableSet) each(do func(table int)) {
	for n, word := range s.first {
		eachBit(word, 64*n, do)
	}
	for n, word := range s.more {
		eachBit(word, 64*(n+len(s.first)), do)
	}
}

// eachBit calls do with the number of each bit of a word, counted from base on.
func eachBit(word uint64, base int, do func(int)) {
	for ; word != 0; word &= word - 1 {
		do(base + bits.TrailingZeros64(word))
	}
}
