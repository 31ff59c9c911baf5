package mvcc

import (
	"bytes"
	"fmt"
)

// Cursor reads rows of an index in key order. The cursor of a WriteTx sees the changes of its batch that were
// made before the cursor.
type Cursor[T any] struct {
	index *Index[T]
	base  scan
	ended bool    // base has no more rows
	ends  bool    // base continues behind the end of the index
	over  []entry // the overlay: entries that replace rows of base, and entries between them

	head *T  // the next row of base, where it has to be compared with the overlay
	at   Key // of the last row of base, where it is needed; at first, where the cursor begins
	read bool
}

// Next returns the next row, nil after the last one.
func (c *Cursor[T]) Next() *T {
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
		c.over = c.over[1:]
		if row != nil {
			return row.(*T)
		}
	}
	if r := c.head; r != nil {
		c.head = nil
		return r
	}
	return c.readBase()
}

func (c *Cursor[T]) readAhead() {
	if c.head == nil {
		c.head = c.readBase()
	}
}

// readBase returns the next row of base. Behind the end of the index come rows of other indexes, some of them
// of this table. Such a row has no key in this index that would be the next one, because all rows that have
// one came before.
func (c *Cursor[T]) readBase() *T {
	if c.ended {
		return nil
	}
	r, ok := c.base.Next().(*T)
	if ok && (c.ends || len(c.over) > 0) {
		c.at = c.index.nextKey(r, c.at, c.read)
		ok, c.read = c.at != nil, true
		if !ok && !c.ends {
			panic(fmt.Sprintf("table %s: a row has changed since it was put", c.index.table.name))
		}
	}
	if !ok {
		c.ended = true
		return nil
	}
	return r
}
