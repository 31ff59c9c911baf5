package state

import (
	"bytes"
	"fmt"
)

// cursor goes through rows of an index in the order of its keys. A writer's sees what its batch has changed
// before the cursor was made, and nothing later.
type cursor[T any] struct {
	index *index[T]
	base  scan
	ended bool    // base
	ends  bool    // base goes on behind the end of the index
	over  []entry // pending: in place of rows of base, and between them

	head *T  // read ahead from base, to compare it with what is pending
	at   key // of the last row of base, where it is wanted; first, where the cursor begins
	read bool
}

// Next returns the next row, nil after the last.
func (c *cursor[T]) Next() *T {
	for len(c.over) > 0 {
		c.readAhead()
		order := -1
		if c.head != nil {
			order = bytes.Compare(c.over[0].key, c.at)
		}
		if order > 0 {
			break
		}
		if order == 0 {
			c.head = nil
		}
		row := c.over[0].row
		if c.over = c.over[1:]; row != nil {
			return row.(*T)
		}
	}
	if r := c.head; r != nil {
		c.head = nil
		return r
	}
	return c.pull()
}

func (c *cursor[T]) readAhead() {
	if c.head == nil {
		c.head = c.pull()
	}
}

// pull returns the next row of base. Behind the end of the index come rows of others, some of this table: they
// are told by having no key in this one that would be next, for all rows that have one have come.
func (c *cursor[T]) pull() *T {
	if c.ended {
		return nil
	}
	r, ok := c.base.Next().(*T)
	if ok && (c.ends || len(c.over) > 0) {
		c.at = c.index.keyFrom(r, c.at, c.read)
		ok, c.read = c.at != nil, true
		if !ok && !c.ends {
			panic(fmt.Sprintf("a row of %s has changed since it was put: it is not where it stands", c.index.table.title))
		}
	}
	if !ok {
		c.ended = true
		return nil
	}
	return r
}
