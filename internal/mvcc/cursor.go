package mvcc

import (
	"bytes"
	"slices"
)

// Cursor reads rows of an index in key order. The cursor of a WriteTx sees the changes of its batch that were
// made before the cursor.
type Cursor[R Record] struct{ rows cursor }

// Next returns the next row, nil after the last one.
func (c *Cursor[R]) Next() R {
	r, _ := c.rows.Next().(R)
	return r
}

// cursor is a Cursor of any row type.
type cursor struct {
	index *index
	base  scan
	over  []entry // the overlay: entries that replace rows of base, and entries between them

	head any // the next row of base, where it has to be compared with the overlay
	at   Key // of the last row of base, where it is needed; at first, where the cursor begins
	read bool
}

// keepOverlay copies the entries of the overlay, so that the cursor remains valid after changes. A look-up of
// one row does without.
func (c *cursor) keepOverlay() {
	c.over = slices.Clone(c.over)
}

// Next returns the next row, nil after the last one.
func (c *cursor) Next() any {
	for len(c.over) > 0 {
		if c.head == nil {
			c.head = c.readBase()
		}

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
			return row
		}
	}

	if r := c.head; r != nil {
		c.head = nil
		return r
	}
	return c.readBase()
}

// readBase returns the next row of base and, where the overlay needs it, sets its key.
func (c *cursor) readBase() any {
	r := c.base.Next()
	if r != nil && len(c.over) > 0 {
		c.at = c.index.nextKey(r, c.at, c.read)
		c.read = true
	}
	return r
}
